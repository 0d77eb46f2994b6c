"""`python -m aiperf breakdown`: print the time breakdown of a traced training step."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiperf.cli.arguments import add_json
from aiperf.errors import BadConfiguration

if TYPE_CHECKING:
    from aiperf.page.section import Table

DESCRIPTION = """Prints the kernels, the gradient exchange and the numbers that 16-bit types lose in the traced steps of a
run (trainer.profile_steps). A file is a trace of torch.profiler or a timeline of Horovod. A truncated file
is read as far as it goes (docs/hpc-ai500.md)."""
EXAMPLES = ("runs/20261121-120000-digits", "--timeline timeline.json --json", "--trace trace.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or its name under runs/")
    parser.add_argument("--timeline", metavar="FILE", help="Horovod's timeline, in place of a run")
    parser.add_argument("--trace", metavar="FILE", help="trace of torch.profiler, in place of a run")
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.output import print_result
    from aiperf.page.section import Paragraph

    given = {name: word for name in ("run", "timeline", "trace") if (word := getattr(arguments, name)) is not None}
    if len(given) != 1:
        raise BadConfiguration("breakdown needs one of a run, --timeline FILE and --trace FILE. Name one of them")
    ((source, word),) = given.items()
    text, tables, facts = _run(word) if source == "run" else _file(word, is_timeline=source == "timeline")
    print_result("aiperf-steps" if source == "run" else "aiperf-trace", facts, (Paragraph(text), *tables), arguments)
    return 0


def _run(word: str) -> tuple[str, tuple[Table, ...], dict[str, Any]]:
    """Return the summary and the tables of the run's first trace, and all its traces for JSON."""
    from aiperf.accounting.step_breakdown import step_breakdown
    from aiperf.journal.events import StepsProfiled
    from aiperf.journal.journal import read
    from aiperf.report.sections.step import summary, tables
    from aiperf.submission.submitted_runs import run_folder

    breakdowns = [step_breakdown(event) for event in read(run_folder(word)) if isinstance(event, StepsProfiled)]
    if not breakdowns:
        raise BadConfiguration(f"{word!r} has no traced steps in its journal. Run with trainer.profile_steps=10")
    more = f" The journal has {len(breakdowns)} traces: --json prints all." if len(breakdowns) > 1 else ""
    return summary(breakdowns[0]) + more, tables(breakdowns[0]), {"steps": [asdict(each) for each in breakdowns]}


def _file(word: str, *, is_timeline: bool) -> tuple[str, tuple[Table, ...], dict[str, Any]]:
    from aiperf.accounting.step_breakdown import parts
    from aiperf.files import given_path
    from aiperf.report.sections.step import exchange_table, kernel_table
    from aiperf.train.tracing.kernel_trace import kernel_times
    from aiperf.train.tracing.trace_file import SOURCE, exchange_times, read_trace

    trace = read_trace(given_path(word))
    facts: dict[str, Any] = {"is_truncated": trace.is_truncated, "unreadable_events": trace.unreadable}
    if is_timeline:
        exchange = exchange_times(trace)
        breakdown = parts(exchange.seconds, exchange.steps)
        table, facts["steps"] = exchange_table(breakdown, SOURCE), exchange.steps
    else:
        kernels = kernel_times(trace)
        breakdown = parts(kernels.seconds, kernels.steps)
        table, facts["steps"], facts["device"] = kernel_table(breakdown, kernels.device), kernels.steps, kernels.device
    if not any(part.seconds for part in breakdown):
        writer = "exchanges of tensors by Horovod" if is_timeline else "operators or kernels by torch.profiler"
        raise BadConfiguration(f"{word!r} has no {writer}. Trace at least one step of training")
    text = f"{facts['steps']} steps" if facts["steps"] else "no annotations of steps: the whole trace counts as one"
    if trace.is_truncated:
        text += f". Warning: the file is truncated after {len(trace.events)} events"
    if trace.unreadable:
        text += f". Warning: {trace.unreadable} events cannot be read and are left out"
    return text, (table,), facts | {"parts": [asdict(part) for part in breakdown]}
