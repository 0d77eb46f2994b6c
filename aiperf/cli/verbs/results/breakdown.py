"""`python -m aiperf breakdown`: print the time breakdown of a traced training step."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiperf.errors import BadConfiguration

if TYPE_CHECKING:
    from aiperf.report.tables import Table
    from aiperf.train.tracing.trace_file import Trace

DESCRIPTION = """Prints the kernels, the gradient exchange and the numbers that 16-bit types lose in the traced steps of a run
(trainer.profile_steps). A file is a trace of torch.profiler or a timeline of Horovod. A truncated file is read as
far as it goes (docs/hpc-ai500.md)."""
EXAMPLES = ("runs/20261121-120000-digits", "--timeline timeline.json --json", "--trace trace.json")
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or its name under runs/")
    parser.add_argument("--timeline", metavar="FILE", help="Horovod's timeline, in place of a run")
    parser.add_argument("--trace", metavar="FILE", help="trace of torch.profiler, in place of a run")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    """Print the breakdown and return the exit status."""
    given = [word for word in (arguments.run, arguments.timeline, arguments.trace) if word is not None]
    if len(given) != 1:
        raise BadConfiguration(
            f"breakdown needs a run, --timeline FILE or --trace FILE, but found {len(given)} of them: name one of them"
        )
    if arguments.timeline is not None:
        _timeline(arguments.timeline, arguments.json)
    elif arguments.trace is not None:
        _trace(arguments.trace, arguments.json)
    else:
        _run(arguments.run, arguments.json)
    return 0


def _run(word: str, as_json: bool) -> None:
    from aiperf.journal.events import StepsProfiled
    from aiperf.journal.journal import read
    from aiperf.journal.run_folder import run_folder
    from aiperf.report.step_breakdown import step_breakdown
    from aiperf.report.step_tables import summary, tables

    found = [step_breakdown(event) for event in read(run_folder(word)) if isinstance(event, StepsProfiled)]
    if not found:
        raise BadConfiguration(
            f"a breakdown needs traced steps, but found none in the journal of {word!r}: run with trainer.profile_steps=10"
        )
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    _print([summary(found[0])], tables(found[0]))
    if len(found) > 1:
        print(f"{len(found) - 1} further attempts were traced: --json prints them")


def _timeline(word: str, as_json: bool) -> None:
    from aiperf.report.step_breakdown import HOROVOD, exchange_parts
    from aiperf.report.step_tables import exchange_table
    from aiperf.train.tracing.exchange_timeline import exchange_times

    trace = _read(word)
    found = exchange_times(trace)
    parts = exchange_parts(found.seconds, found.steps, HOROVOD)
    if as_json:
        facts = {"steps": found.steps, "is_truncated": trace.is_truncated, "exchange": [asdict(each) for each in parts]}
        print(json.dumps(facts, indent=2))
        return
    _print([f"{found.steps} steps", *_truncation(trace)], [exchange_table(parts, HOROVOD)])


def _trace(word: str, as_json: bool) -> None:
    from aiperf.report.step_breakdown import kernel_parts
    from aiperf.report.step_tables import kernel_table
    from aiperf.train.tracing.kernel_trace import kernel_times

    trace = _read(word)
    found = kernel_times(trace)
    parts = kernel_parts(found.seconds, found.steps, found.device)
    if as_json:
        facts: dict[str, Any] = {"steps": found.steps, "device": found.device, "is_truncated": trace.is_truncated}
        print(json.dumps(facts | {"kernels": [asdict(each) for each in parts]}, indent=2))
        return
    steps = f"{found.steps} steps" if found.steps else "no annotations of steps: the whole trace"
    _print([steps, *_truncation(trace)], [kernel_table(parts, found.device, "per step" if found.steps else "time")])


def _read(word: str) -> Trace:
    from aiperf.files import given_path, what_is_wrong_with
    from aiperf.train.tracing.trace_file import read_trace

    path: Path = given_path(word)
    if (wrong := what_is_wrong_with(path)) is not None:
        raise BadConfiguration(f"a trace is a regular file, but found {word!r}, which is {wrong}: name a file")
    return read_trace(path)


def _truncation(trace: Trace) -> list[str]:
    return [f"warning: the file is truncated after {len(trace.events)} events"] if trace.is_truncated else []


def _print(lines: Iterable[str], tables: Iterable[Table]) -> None:
    from aiperf.cli.output import print_folded, print_line

    print_folded(lines)
    for table in tables:
        rows = [[column.name for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
        widths = [max(len(row[index]) for row in rows) for index in range(len(table.columns))]
        print_line(f"\n{table.caption}")
        for first, *others in rows:
            numbers = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
            print_line(f"  {first.ljust(widths[0])}  {'  '.join(numbers)}")
        if table.footnote:
            print_folded([f"  {table.footnote}"])
