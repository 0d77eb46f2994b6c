"""`python -m aiperf bops`: count and measure the basic operations (BOPs) of programs, and the peaks of this machine."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from aiperf.atomic_files import replace_file
from aiperf.cli.arguments import add_json, add_number
from aiperf.cli.output import document, print_result
from aiperf.errors import BadConfiguration
from aiperf.files import given_path
from aiperf.mistyped import require_shell_words
from aiperf.page.section import Items, Paragraph
from aiperf.units import count, duration, share, si, size

if TYPE_CHECKING:
    from aiperf.bops.peak import MachinePeak
    from aiperf.bops.result import ProgramResult, SourceCount

DESCRIPTION = """Counts basic operations (BOPs: arithmetic, logic, comparison and addressing, of integers and floating-point
numbers), measures their rate and the peaks of this machine, and draws both as a roofline.
Method: Wang et al. 2018, docs/bops.md."""
EXAMPLES = (
    "sort",
    "grep --size 100000000 --ranks 2",
    "run --simulate -- ./my_program args",
    "count my.c --args '10 20' --annotate",
    "peak --json",
)
TOOLS = {
    "sort": "sort whole numbers by quicksort and merge",
    "grep": "count the lines of a text that match an expression",
    "wordcount": "count the words of a text in a hash table",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True, parser_class=type(parser))
    for name, meaning in TOOLS.items():
        tool = kinds.add_parser(name, help=f"{meaning}. Measure it and draw the roofline", allow_abbrev=False)
        unit = "records" if name == "sort" else "bytes of text"
        default = "4 million per rank" if name == "sort" else "64 million per rank"
        add_number(tool, "--size", unit, least=1, most=10**13, default_in_words=default)
        add_number(tool, "--ranks", "processes", least=1, most=4096, default_in_words="the cores, 1 without MPI")
        add_number(tool, "--seed", "seed of the data", default=0, least=0)
        tool.add_argument("--flags", default="-O2", help="flags of the compiler (default: -O2)")
        tool.add_argument("--against", metavar="FLAGS", help="compare with these flags in interleaved runs: -O0")
        if name == "grep":
            tool.add_argument("--expression", default="a+b|^q.*x$", help="of . * + ? [] ^ $ | (default: a+b|^q.*x$)")
        _add_measuring(tool)
    run = kinds.add_parser("run", help="measure a program", allow_abbrev=False)
    run.add_argument("--simulate", action="store_true", help="count by callgrind if there are no hardware counters")
    run.add_argument(
        "--source", nargs="+", type=given_path, metavar="FILE", help="sources of the program, for a source count"
    )
    run.add_argument("--flags", default="", help="flags of the compiler for --source")
    run.add_argument("--launch", default="", metavar="WORDS", help="words before the program: 'mpirun -np 2'")
    run.add_argument("--input", type=given_path, metavar="FILE", help="standard input of the program")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- PROGRAM …", help="program and its arguments")
    _add_measuring(run)
    count = kinds.add_parser("count", help="count the operations of sources by running them", allow_abbrev=False)
    count.add_argument("files", nargs="*", type=given_path, metavar="FILE", help="sources of C or C++ of one program")
    count.add_argument("--flags", default="", help="flags of the compiler and the linker")
    count.add_argument("--args", default="", help="arguments of the program")
    count.add_argument("--launch", default="", metavar="WORDS", help="words before the program: 'mpirun -np 2'")
    count.add_argument("--input", type=given_path, metavar="FILE", help="standard input of the program")
    count.add_argument("--function", metavar="F", help="count the text of one function")
    count.add_argument(
        "--annotate", action="store_true", help="print the source with executions and BOPs, hottest first"
    )
    count.add_argument("--binary", type=given_path, metavar="PROGRAM", help="a program that was built with coverage")
    count.add_argument("--commands", type=given_path, metavar="FILE", help="compile_commands.json of --binary")
    add_json(count)
    peak = kinds.add_parser("peak", help="measure the peaks of this machine", allow_abbrev=False)
    peak.add_argument("--no-memory", action="store_true", help="leave out the memory bandwidth")
    add_json(peak)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    add_number(parser, "--repeat", "separate plain runs", default=10, least=10, most=100_000)
    parser.add_argument(
        "--out", type=given_path, metavar="FOLDER", help="folder of the result and its page (default: bops-NAME)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    require_shell_words(arguments, "flags", "against", "args", "launch")
    match arguments.kind:
        case "count":
            _count(arguments)
        case "peak":
            from aiperf.bops.peak import measure_peak

            measured = measure_peak(with_memory=not arguments.no_memory)
            print_result("aiperf-peak", to_builtins(measured), (_peak_part(measured),), arguments)
        case "run":
            _run(arguments)
        case _:
            _tool(arguments)
    return 0


def _count(arguments: argparse.Namespace) -> None:
    from aiperf.bops.count import annotated, count_binary, count_sources

    shared: dict[str, Any] = {
        "arguments": shlex.split(arguments.args),
        "launch": shlex.split(arguments.launch),
        "function": arguments.function,
        "source": arguments.input,
    }
    if (arguments.binary is None) != (arguments.commands is None) or bool(arguments.files) == bool(arguments.binary):
        raise BadConfiguration(
            "bops count needs the sources of a program, or --binary with --commands. Give one of both"
        )
    if arguments.binary is not None:
        counted = count_binary(given_path(str(arguments.binary)).resolve(), arguments.commands, **shared)
    else:
        counted = count_sources(arguments.files, flags=shlex.split(arguments.flags), **shared)
    parts = (Items(_count_lines(counted)), annotated(counted) if arguments.annotate else None)
    print_result("aiperf-operations", to_builtins(counted), parts, arguments)


def _count_lines(counted: SourceCount) -> tuple[str, ...]:
    from aiperf.bops.page import flops_text

    least = "at least " if counted.at_least else ""
    lines = [
        f"{least}{count(counted.bops)} BOPs, of them {count(counted.last_comparisons)} last comparisons of loops "
        f"(as the paper counts: {least}{count(counted.bops_paper)}){flops_text(counted)}",
        "by operation: " + ", ".join(f"{name} {count(number)}" for name, number in counted.by_operation.items()),
        "by function: "
        + ", ".join(f"{name} {count(number)}" for name, number in list(counted.by_function.items())[:12]),
    ]
    if counted.library_calls:
        calls = (f"{name} {'?' if number is None else count(number)}" for name, number in counted.library_calls.items())
        lines.append("not counted, calls of the library: " + ", ".join(calls))
    if counted.upper_bounds:
        places = ", ".join(f"{name} ({place})" for name, place in counted.upper_bounds.items())
        lines.append(
            f"upper bound: operations after these were counted although they may not have been executed: {places}"
        )
    return *lines, f"counted with {counted.compiler}"


def _peak_part(measured: MachinePeak) -> Items:
    nominal = "not known" if measured.nominal is None else si(measured.nominal, "BOPS")
    part = "" if measured.nominal is None else f" ({share(measured.measured / measured.nominal)} of nominal)"
    lines = [
        f"{measured.model}, {measured.cores} cores, clock {si(measured.clock_hertz, 'Hz')} while measured",
        f"integer adds: {si(measured.measured, 'BOPS')} on all cores{part}, {measured.adds_per_cycle:.1f} per cycle and core",
        f"nominal: {nominal}. {measured.source}",
        *(f"  {name} {si(rate, 'OPS')} per core" for name, rate in measured.per_core.items()),
    ]
    if measured.fma_nominal is not None and (each := measured.per_core.get("fma_fp32")) is not None:
        reached = share(each * measured.cores / measured.fma_nominal)
        lines.append(f"FMA in FP32, by family: {si(measured.fma_nominal, 'FLOPS')} on all cores, {reached} measured")
    if measured.memory_bytes_per_second is not None and measured.array_bytes is not None:
        lines.append(
            f"STREAM triad: {si(measured.memory_bytes_per_second, 'B/s')} with arrays of {size(measured.array_bytes)}, under a "
            f"load of {measured.load:.1f}"
        )
    return Items((*lines, *(f"note: {note}" for note in measured.notes)))


def _run(arguments: argparse.Namespace) -> None:
    from aiperf.bops.count import count_sources
    from aiperf.bops.execute import execute
    from aiperf.bops.peak import own_peak
    from aiperf.bops.run import instruction_count, result, times

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise BadConfiguration("bops run needs a program after --. Give it: bops run -- ./my_program args")
    launch, source = shlex.split(arguments.launch), arguments.input
    timed = times(lambda: execute([*launch, *command], source=source), arguments.repeat)
    counted, reason = instruction_count(command, launch, simulate=arguments.simulate, source=source)
    by_source = None
    if arguments.source is not None:
        by_source = count_sources(
            arguments.source, flags=shlex.split(arguments.flags), arguments=command[1:], launch=launch, source=source
        )
    name = Path(command[0]).name
    _show(arguments, name, result(name, command, timed, counted, reason, by_source, own_peak()))


def _tool(arguments: argparse.Namespace) -> None:
    from aiperf.bops.peak import own_peak
    from aiperf.bops.run import measure_tool, tool

    with tempfile.TemporaryDirectory(prefix="aiperf-bops-") as folder:
        expression = getattr(arguments, "expression", "")
        chosen = tool(arguments.kind, Path(folder), arguments.size, arguments.ranks, expression, arguments.seed)
        measured = measure_tool(chosen, arguments.repeat, arguments.flags, arguments.against, own_peak())
    _show(arguments, arguments.kind, measured)


def _show(arguments: argparse.Namespace, name: str, measured: ProgramResult) -> None:
    from aiperf.bops.page import judged, label_table, program_lines, program_page

    folder = arguments.out if arguments.out is not None else Path(f"bops-{name}")
    programs = judged([measured], [], [])
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{name}.json", document("aiperf-program", to_builtins(measured)).encode())
    replace_file(folder / f"{name}.html", program_page(programs, []).encode())
    median = duration(measured.seconds.median)
    written = f"wrote {folder / f'{name}.json'} and {folder / f'{name}.html'} (median time {median})"
    parts = (Items(tuple(program_lines(measured))), label_table(programs.labels, "BOP"), Paragraph(written))
    print_result("aiperf-program", to_builtins(measured), parts, arguments)
