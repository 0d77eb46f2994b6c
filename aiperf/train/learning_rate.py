"""Learning rate of each step, as the benchmark prescribes. No torch here, because verifying a journal also needs it."""

from __future__ import annotations

from aiperf.train.trainer_config import TrainerConf


def learning_rate(conf: TrainerConf, epoch: int, global_batch: int, done: float = 0.0) -> float:
    """Return the learning rate of a step. `epoch`: from 1. `done`: share of the epoch's steps before this one, 0..1.

    It falls linearly by epoch from `learning_rate` towards zero at `decay_epochs`, in each trial. Later epochs keep the
    last rate above zero. If it is scaled by k = global batch / reference batch > 1, the factor rises from 1 to k, by
    the same amount at each step, in the first `warmup_epochs` (gradual warm-up: Goyal et al. 2017, arXiv:1706.02677,
    section 2.2).

    >>> [round(learning_rate(TrainerConf(), epoch, 256), 4) for epoch in (1, 31, 60)]
    [0.1, 0.05, 0.0017]
    """
    assert conf.decay_epochs is not None, "a run's configuration says how many: aiperf/config.py"
    left = max(1, conf.decay_epochs - (epoch - 1)) / conf.decay_epochs
    return conf.learning_rate * _scale(conf, epoch - 1 + done, global_batch) * left


def _scale(conf: TrainerConf, epochs: float, global_batch: int) -> float:
    """Return the factor of the rate after `epochs` epochs."""
    if not conf.scale_learning_rate:
        return 1.0
    whole = global_batch / conf.reference_batch
    if whole <= 1 or epochs >= conf.warmup_epochs:
        return whole
    return 1.0 + (whole - 1.0) * epochs / conf.warmup_epochs
