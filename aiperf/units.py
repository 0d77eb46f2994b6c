"""Formatting of quantities as text: SI prefixes, durations, shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

NOT_MEASURED = "not measured"
"""Text for a missing figure. A missing figure is never printed as zero."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_NARROW = "\u202f"  # narrow no-break space between groups of three digits


_MOST_DIGITS = 7
"""Largest number of digits of the ends of an interval."""


class Noun(NamedTuple):
    one: str
    many: str


IMAGE = Noun("image", "images")
SEQUENCE = Noun("sequence", "sequences")


def noun(dataset: Mapping[str, object]) -> Noun:
    """Return the noun of the samples of a data set, as a journal describes the set. Journals of images have none."""
    one, many = dataset.get("sample"), dataset.get("samples")
    return Noun(one, many) if isinstance(one, str) and isinstance(many, str) else IMAGE


def _significant(value: float, digits: int) -> str:
    """Return fixed notation with `digits` significant digits, for 0 ≤ |value| < 1000."""
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))) + 1  # as rounded: 0.9999 is 1.00
    return f"{value:.{max(0, digits - whole)}f}"


def _prefix_of(value: float) -> int:
    """Return the power of 1000 that scales the value to 1…1000 after rounding to three significant digits."""
    if value == 0:
        return 0
    magnitude = abs(float(f"{value:.2e}"))  # 999,999 rounds to 1.00 M, not to 1000 k
    return min(max(0, math.floor(math.log10(magnitude) / 3)), len(_PREFIXES) - 1)


def si(value: float, unit: str) -> str:
    """Return a finite value as text with an SI prefix: `si(4.12e13, "FLOPS")` is `41.2 TFLOPS`."""
    assert math.isfinite(value), f"{value!r} {unit} is no quantity"
    power = _prefix_of(value)
    return f"{_significant(value / 1000.0**power, 3)} {_PREFIXES[power]}{unit}"


def scale(largest: float, unit: str) -> tuple[float, str]:
    """Return the divisor and the unit with SI prefix for the numbers on an axis or of an interval: `(1e12, "TFLOPS")`."""
    power = _prefix_of(largest) if math.isfinite(largest) else 0
    return 1000.0**power, f"{_PREFIXES[power]}{unit}"


flops_per_second = partial(si, unit="FLOPS")
"""Rate in FLOPS as text: `41.2 TFLOPS`."""
flops_per_watt = partial(si, unit="FLOPS/W")
"""Energy efficiency in FLOPS per watt as text: `17.2 GFLOPS/W`."""
watts = partial(si, unit="W")
"""Power in watts as text: `2.41 kW`."""
joules = partial(si, unit="J")
"""Energy in joules as text: `12.3 MJ`."""
operations = partial(si, unit="FLOP")
"""Number of floating-point operations as text: `7.81 GFLOP`. Unlike a rate, the unit has no S."""
size = partial(si, unit="B")
"""Number of bytes as text with a decimal prefix: `16.0 GB`."""


def interval(low: float, high: float, unit: str) -> str:
    """Return an interval as text: `40.1 to 42.0 TFLOPS`."""
    divisor, prefixed = scale(max(abs(low), abs(high)), unit)
    texts = [
        (_significant(low / divisor, digits), _significant(high / divisor, digits))
        for digits in range(3, _MOST_DIGITS + 1)
    ]
    ends = next((each for each in texts if each[0] != each[1]), texts[0])
    return f"{ends[0]} to {ends[1]} {prefixed}"


def share(value: float, decimals: int = 1) -> str:
    """Return a share (0..1) as text in per cent: `95.1 %` for 0.951. Only zero gives `0.0 %`."""
    percent = abs(100 * value)
    least = 10.0**-decimals
    sign = "−" if value < 0 else ""
    if 0 < percent < least / 2:
        return f"{'>' if value < 0 else '<'} {sign}{least:.{decimals}f} %"
    return f"{sign}{percent:.{decimals}f} %"


def change(value: float) -> str:
    """Return a relative change as text in per cent: `+1.20 %` for 0.012, `−0.03 %` for −0.0003."""
    return "0.00 %" if value == 0 else f"{100 * value:+.2f} %".replace("-", "−")


def change_interval(low: float, high: float) -> str:
    """Return the interval of a relative change as text in per cent: `−0.10 to +2.31 %` for −0.001 and 0.0231."""
    return f"{100 * low:+.2f} to {100 * high:+.2f} %".replace("-", "−")


def signed(value: float, unit: str) -> str:
    """Return a difference as text with sign and SI prefix: `+1.23 TFLOPS`, `−4.00 GFLOPS`."""
    sign = "−" if value < 0 else "+" if value > 0 else ""
    return f"{sign}{si(abs(value), unit)}"


def noise(value: float) -> str:
    """Return a text about noise added to images: `with added noise of 30 % of the pixel range` for 0.3."""
    return f"with added noise of {100 * value:.3g} % of the pixel range"


def error(value: float) -> str:
    """Return a classification error of 0..1 as text in per cent: `2.41 %` for 0.0241."""
    return share(value, decimals=2)


METRICS = {"top1": "top-1 accuracy", "map50": "mAP@0.5", "next_token": "next-token accuracy"}
"""Text of the metrics of a network's quality (`aiperf.journal.events.Metric`)."""
ACCURACIES = frozenset({"top1", "next_token"})
"""Metrics that are shares of correct answers, so that 1 − quality is an error."""


def quality(value: float) -> str:
    """Return a quality (top-1 accuracy or mAP, 0..1) as text with up to four significant digits: `0.4231`, `0.5`."""
    return f"{value:.4g}"


def count(value: float, decimals: int = 0) -> str:
    """Return a number as text in groups of three digits, separated by narrow spaces: `1 234 567`."""
    return (f"{value:,.{decimals}f}" if decimals else f"{round(value):,}").replace(",", _NARROW)


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number of things as text: `1 worker`, `2 workers`. `many`: plural, by default with an s."""
    return f"{count(number)} {one if number == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """Return a duration in seconds as text with at most two units: `12 h 00 min`, `3 min 05 s`, `4.2 s`, `38 ms`, `100 h`."""
    assert math.isfinite(seconds), f"{seconds!r} s is no duration"
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.0995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.0f} ms" if milliseconds >= 9.5 else f"{_significant(milliseconds, 2)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes >= 6000:
        return f"{count(round(seconds / 3600))} h"
    return f"{minutes // 60} h {minutes % 60:02d} min"
