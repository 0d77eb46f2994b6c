"""Tables and summary of a step's time breakdown, for the report and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiperf import units
from aiperf.report.step_breakdown import LostShares, StepBreakdown, StepPart
from aiperf.report.tables import Cell, Column, Table, row_of

KERNELS, EXCHANGE, NUMBERS = "step-kernels", "step-exchange", "step-numbers"


def summary(found: StepBreakdown) -> str:
    """Return the traced steps, the cost of tracing them, and the bandwidth of the exchange."""
    steps = f"steps {found.first_step} to {found.first_step + found.steps - 1}"
    traced = f"Rank 0 of {found.ranks} traced {steps} of trial {found.trial}: {_milliseconds(found.seconds)} per step"
    if found.reference_seconds is not None and found.slowdown is not None:
        traced += (
            f", {units.change(found.slowdown)} against the {_milliseconds(found.reference_seconds)} before the trace"
        )
    traced += f". Starting, stopping and reading the trace took {units.duration(found.profiler_seconds)}."
    if not found.exchange_bytes:
        return traced
    return (
        f"{traced} All ranks together send {units.size(found.exchange_bytes)} of gradients per step, "
        f"{units.si(found.exchange_bytes_per_second, 'B/s')} (ranks · bytes · 2(n−1)/n)."
    )


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3f} ms"


def tables(found: StepBreakdown) -> Iterator[Table]:
    """Yield the tables of kernels, exchange and lost numbers, as far as they have rows."""
    yield kernel_table(found.kernels, found.device)
    if found.exchange:
        yield exchange_table(found.exchange, found.exchange_source)
    elif found.ranks > 1:
        yield exchange_table((StepPart("exchange", None, None),), "no record of the exchange")
    if found.numbers:
        yield _number_table(found.numbers)


def kernel_table(parts: Sequence[StepPart], device: str, unit: str = "per step") -> Table:
    """Return the classes of kernels. `unit`: of the times."""
    place = "the accelerator, without idle time" if device == "cuda" else "the processor"
    footnote = "Not measured: instructions per cycle, utilization of the memory."
    return _part_table(KERNELS, f"Kernels on {place}", ("kernels", unit), parts, footnote)


def exchange_table(parts: Sequence[StepPart], source: str, unit: str = "per step") -> Table:
    """Return the phases of the exchange."""
    return _part_table(EXCHANGE, f"Gradient exchange ({source})", ("phase", unit), parts, "")


def _part_table(name: str, caption: str, heads: tuple[str, str], parts: Sequence[StepPart], footnote: str) -> Table:
    columns = (Column(heads[0]), Column(heads[1], True), Column("share", True))
    rows = tuple(
        row_of(
            part.name,
            Cell(units.NOT_MEASURED) if part.seconds is None else Cell(_milliseconds(part.seconds), part.seconds),
            Cell("—", -1.0) if part.share is None else Cell(units.share(part.share), part.share, bar=part.share),
        )
        for part in parts
    )
    return Table(name, caption, columns, rows, footnote=footnote)


def _number_table(numbers: Sequence[LostShares]) -> Table:
    lost = ("FP16 zero", "FP16 subnormal", "FP16 infinite", "BF16 zero", "BF16 subnormal", "BF16 infinite")
    columns = (Column("layers"), *(Column(name, True) for name in (*lost, "lost updates")))
    rows = tuple(
        row_of(
            each.kind.replace("_", " "),
            *(
                Cell("—", -1.0) if share is None else Cell(units.share(share, 2), share)
                for share in (
                    each.fp16_zero,
                    each.fp16_subnormal,
                    each.fp16_infinite,
                    each.bf16_zero,
                    each.bf16_subnormal,
                    each.bf16_infinite,
                    each.lost_updates,
                )
            ),
        )
        for each in numbers
    )
    footnote = (
        "Shares of the gradient elements that are not 0 in FP32, without loss scaling. Lost updates: shares of the updates "
        "below half a last place of a BF16 weight."
    )
    return Table(NUMBERS, "Numbers that 16-bit types lose", columns, rows, footnote=footnote)
