"""Whether a run's window is long enough for an epoch of its starting network."""

from __future__ import annotations

from aiperf.config import RunConf, as_plain
from aiperf.journal.events import WorkerShape
from aiperf.system.peaks import declared_peak, fastest_peak
from aiperf.units import duration, share, si

SHARE = 0.4
"""Share of the dense peak that training of an image network does not exceed for long. The estimate is a lower bound."""


def epoch_note(conf: RunConf, shape: WorkerShape | None, epoch_flops: float) -> str | None:
    """Return a text if an epoch at SHARE of the peak takes longer than the window, or if the peak is unknown. Else None."""
    known = None if shape is None else fastest_peak(shape.device, conf.trainer.precision, declared_peak(as_plain(conf)))
    if shape is None or known is None:
        device = "a device that is not known yet" if shape is None else shape.device
        return f"whether one fits the window cannot be told: no peak of {device} is published or declared (system.peak)"
    window = conf.schedule.duration_seconds - conf.schedule.warmup_seconds
    seconds = epoch_flops / (SHARE * known * shape.ranks)
    if seconds <= window:
        return None
    return (
        f"one takes {duration(seconds)} at {share(SHARE)} of the peak ({shape.ranks} × {si(known, 'FLOPS')}), longer than the "
        f"window of {duration(window)}: the run can finish none and has no score. Take schedule=hour, a longer "
        "schedule.duration_seconds, or a smaller data set"
    )
