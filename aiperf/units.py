"""How quantities are written for people: SI prefixes, durations, shares.

Every printed figure of a report, a table or a terminal line comes from here, so that the same quantity reads the same
everywhere. Nothing here rounds what is stored: figures are rounded where they are shown, and only there.
"""

from __future__ import annotations

import math

NOT_MEASURED = "not measured"
"""Stands wherever a figure is missing: a missing figure is never a zero."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_NARROW = "\u202f"  # the narrow no-break space: groups of three digits, and between a number and its unit


_MOST_DIGITS = 7
"""Of the ends of an interval."""


def _significant(value: float, digits: int) -> str:
    """Fixed notation with that many significant digits, for 0 ≤ |value| < 1000."""
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))) + 1  # as rounded: 0.9999 is 1.00
    return f"{value:.{max(0, digits - whole)}f}"


def _prefix_of(value: float, digits: int = 3) -> int:
    """The power of 1000 that writes the value between 1 and 1000 after rounding to that many digits."""
    if value == 0:
        return 0
    magnitude = abs(float(f"{value:.{digits - 1}e}"))  # 999,999 rounds to 1.00 M, not to 1000 k
    return min(max(0, math.floor(math.log10(magnitude) / 3)), len(_PREFIXES) - 1)


def si(value: float, unit: str, digits: int = 3) -> str:
    """`si(4.12e13, "FLOPS")` is `41.2 TFLOPS`. Values below 1 keep the plain unit; infinite and undefined ones are refused."""
    assert math.isfinite(value), f"{value!r} {unit} is no quantity"
    power = _prefix_of(value, digits)
    return f"{_significant(value / 1000.0**power, digits)} {_PREFIXES[power]}{unit}"


def scale(largest: float, unit: str) -> tuple[float, str]:
    """The divisor and the unit for an axis or an interval whose largest magnitude is given: `(1e12, "TFLOPS")`."""
    power = _prefix_of(largest) if math.isfinite(largest) else 0
    return 1000.0**power, f"{_PREFIXES[power]}{unit}"


def flops_per_second(value: float) -> str:
    """A rate of floating-point operations: `41.2 TFLOPS`."""
    return si(value, "FLOPS")


def operations(value: float) -> str:
    """A number of floating-point operations: `7.81 GFLOP`. Not to be taken for a rate, hence no S."""
    return si(value, "FLOP")


def interval(low: float, high: float, unit: str) -> str:
    """Both ends under one prefix, with as many digits as tell them apart, three at least: `40.1 to 42.0 TFLOPS`, `1.4486 to
    1.4493 EFLOPS`."""
    divisor, prefixed = scale(max(abs(low), abs(high)), unit)
    ends = ("", "")
    for digits in range(3, _MOST_DIGITS + 1):
        ends = _significant(low / divisor, digits), _significant(high / divisor, digits)
        if ends[0] != ends[1]:
            break
    return f"{ends[0]} to {ends[1]} {prefixed}"


def share(value: float, decimals: int = 1) -> str:
    """A part of one as per cent: `95.1 %`, `−0.3 %`. A part that is not zero never reads as `0.0 %`."""
    percent = abs(100 * value)
    least = 10.0**-decimals
    sign = "−" if value < 0 else ""
    if 0 < percent < least / 2:
        return f"{'>' if value < 0 else '<'} {sign}{least:.{decimals}f} %"
    return f"{sign}{percent:.{decimals}f} %"


def change(value: float) -> str:
    """How much more, as a part of one, or less: `+1.20 %`, `−0.03 %`."""
    return "0.00 %" if value == 0 else f"{100 * value:+.2f} %".replace("-", "−")


def change_interval(low: float, high: float) -> str:
    """Both ends of such a one: `−0.10 to +2.31 %`."""
    return f"{100 * low:+.2f} to {100 * high:+.2f} %".replace("-", "−")


def signed(value: float, unit: str) -> str:
    """A difference of quantities: `+1.23 TFLOPS`, `−4.00 GFLOPS`."""
    sign = "−" if value < 0 else "+" if value > 0 else ""
    return f"{sign}{si(abs(value), unit)}"


def noise(value: float) -> str:
    """Noise added to real images, in words that stand beside the data set: `with added noise of 30 % of the pixel range`."""
    return f"with added noise of {100 * value:.3g} % of the pixel range"


def error(value: float) -> str:
    """A classification error, two decimals: `2.41 %`."""
    return share(value, decimals=2)


def count(value: int) -> str:
    """An integer, in groups of three digits."""
    return f"{value:,}".replace(",", _NARROW)


def size(value: float) -> str:
    """Bytes, decimal prefixes: `16.0 GB`."""
    return si(value, "B")


def duration(seconds: float) -> str:
    """`360,448 h` (grouped), `12 h 00 min`, `3 min 05 s`, `4.2 s`, `38 ms`: two units at most."""
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
