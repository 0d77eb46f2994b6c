"""The learning rate of each step, as the benchmark prescribes it. No torch here: verifying a journal needs it, too."""

from __future__ import annotations

from aiperf.train.trainer_config import TrainerConf


def learning_rate(conf: TrainerConf, epoch: int, global_batch: int, done: float = 0.0) -> float:
    """The rate of a step: in an epoch, from 1, of whose steps the share `done` came before it.

    Linear by the epoch from `learning_rate` towards zero at `decay_epochs`, anew for each trial; epochs beyond keep the last
    rate above zero. Where it is scaled by k = global batch / reference batch > 1, k is reached from 1, by the same amount at
    each step, in the first `warmup_epochs` (gradual warm-up: Goyal et al. 2017, arXiv:1706.02677, section 2.2).

    >>> [round(learning_rate(TrainerConf(), epoch, 256), 4) for epoch in (1, 31, 60)]
    [0.1, 0.05, 0.0017]
    """
    assert conf.decay_epochs is not None, "a run's configuration says how many: aiperf/config.py"
    left = max(1, conf.decay_epochs - (epoch - 1)) / conf.decay_epochs
    return conf.learning_rate * _scale(conf, epoch - 1 + done, global_batch) * left


def _scale(conf: TrainerConf, epochs: float, global_batch: int) -> float:
    """By how much the rate is scaled after so many epochs."""
    if not conf.scale_learning_rate:
        return 1.0
    whole = global_batch / conf.reference_batch
    if whole <= 1 or epochs >= conf.warmup_epochs:
        return whole
    return 1.0 + (whole - 1.0) * epochs / conf.warmup_epochs
