"""`python -m aiperf roofline`: draw the limits (peak, memory bandwidth) of programs, networks and runs."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from msgspec import structs, to_builtins

from aiperf.atomic_files import replace_file
from aiperf.cli.arguments import add_number
from aiperf.cli.output import print_result
from aiperf.cli.verbs.tools.flops import add_graph_arguments, graph_of
from aiperf.errors import BadConfiguration, conflict
from aiperf.files import given_path
from aiperf.page.section import Items, Paragraph
from aiperf.system.peaks import DataType
from aiperf.units import IMAGE, si

if TYPE_CHECKING:
    from aiperf.bops.result import ProgramResult

DESCRIPTION = """Draws a roofline: results of `bops` as programs, or the layers of a network with the shortest time of a
training step, which needs no such machine. One page with the picture and the labels is written. For a run it
prints the shortest time of its steps."""
EXAMPLES = (
    "bops-sort/sort.json bops-grep/grep.json --published",
    "resnet50_v1_5 --device 'NVIDIA A100-SXM4-80GB' --precision bf16 --batch 256",
    "runs/20261121-120000-digits",
    "grown.json --device 'NVIDIA H200' --json",
)
_PAGE = Path("roofline.html")


_PROGRAMS, _NETWORK, _RUN = "results of `bops`", "a network", "a run"
_USED_BY = {
    "ceiling": (_PROGRAMS,),
    "published": (_PROGRAMS,),
    "roof": (_PROGRAMS, _NETWORK),
    "out": (_PROGRAMS, _NETWORK),
    **dict.fromkeys(("device", "peak", "precision", "measure", "batch", "image", "channels", "classes"), (_NETWORK,)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_arguments(parser)
    parser.add_argument("more", metavar="RESULT", nargs="*", help="further results of `bops`")
    parser.add_argument("--device", metavar="MODEL", help="accelerator of system/peaks.json that the network trains on")
    parser.add_argument(
        "--peak", type=given_path, metavar="FILE", help="output of `bops peak --json`, in place of --device"
    )
    parser.add_argument("--precision", choices=get_args(DataType), help="data type (default: bf16)")
    parser.add_argument("--measure", action="store_true", help="time each kind of layer on this machine, with torch")
    add_number(parser, "--batch", f"{IMAGE.many} of a step", least=1, most=1_000_000, default_in_words="256")
    parser.add_argument(
        "--roof", action="append", default=[], metavar="NAME=FIGURE", help="further roof, with B/s: a bandwidth"
    )
    parser.add_argument(
        "--ceiling",
        action="append",
        default=[],
        metavar="NAME=PORTS,IPC,SIMD",
        help="ceiling of programs by equation (8) of the paper. IPC: a number, or measured",
    )
    parser.add_argument("--published", action="store_true", help="draw the paper's programs pale")
    parser.add_argument("--out", type=given_path, metavar="FILE", help="page (default: roofline.html)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _refuse_unused(arguments: argparse.Namespace, subject: str) -> None:
    for name, subjects in _USED_BY.items():
        if subject not in subjects and getattr(arguments, name):
            raise conflict(f"--{name}", subject, "Leave it out")
    if subject != _PROGRAMS and arguments.more:
        raise conflict(arguments.graph, repr(arguments.more[0]), "Draw the rooflines of networks and runs one by one")
    if arguments.peak is not None and arguments.device is not None:
        raise conflict("--peak", "--device")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.submission.submitted_runs import is_submission

    run = arguments.graph
    if given_path(run).is_dir() or (Path("runs") / run).is_dir() or is_submission(run):
        _run(arguments)
        return 0
    results = [_result(name) for name in (arguments.graph, *arguments.more)]
    programs = [each for each in results if each is not None]
    if programs and len(programs) < len(results):
        raise conflict("a result of `bops`", "a network", "Draw their rooflines one by one")
    if programs:
        _programs(arguments, programs)
    else:
        _network(arguments)
    return 0


def _result(name: str) -> ProgramResult | None:
    """Return a result of `bops`, None for a network."""
    from aiperf.bops.result import read_result

    path = given_path(name)
    return read_result(path) if path.suffix == ".json" and path.is_file() else None


def _programs(arguments: argparse.Namespace, results: list[ProgramResult]) -> None:
    from aiperf.bops.page import added_roof, judged, label_table, program_lines, program_page, published

    _refuse_unused(arguments, _PROGRAMS)
    programs = judged(results, [added_roof(each) for each in arguments.roof], arguments.ceiling)
    pale = published([each.name for each in results]) if arguments.published else []
    page = arguments.out or _PAGE
    replace_file(page, program_page(programs, pale).encode())
    lines = tuple(line for each in results for line in program_lines(each))
    parts = (Items(lines), label_table(programs.labels, "BOP"), Paragraph(f"wrote {page}"))
    print_result("aiperf-programs", {"programs": to_builtins(results)}, parts, arguments)


def _run(arguments: argparse.Namespace) -> None:
    """Print the steps of a run at the roofline of its machine. The page of a run is its report."""
    from aiperf.report.sections.time_spent import roofline
    from aiperf.report.write import report_of
    from aiperf.submission.submitted_runs import run_folder

    _refuse_unused(arguments, _RUN)
    report = report_of(run_folder(arguments.graph))
    floor, shown = report.training_floor, roofline(report)
    if floor is None or shown is None:
        raise BadConfiguration(
            f"the roofline of a run needs the peak and the memory bandwidth of its machine, but the journal of "
            f"{arguments.graph!r} lacks one of them: run with preflight.probes=full, or on an accelerator of system/peaks.json"
        )
    print_result("aiperf-floor", {"kind": "run", **asdict(floor)}, shown.parts, arguments)


def _network(arguments: argparse.Namespace) -> None:
    from aiperf.bops.networks import DeviceLimits, device, network_roofline
    from aiperf.bops.page import added_roof, layer_table, network_page

    _refuse_unused(arguments, _NETWORK)
    graph = graph_of(arguments)
    batch: int = arguments.batch or 256
    precision: DataType = arguments.precision or "bf16"
    page = arguments.out or _PAGE
    if arguments.peak is not None:
        from aiperf.given_file import fault_of, read_json
        from aiperf.report.training_floor import HostRoofs

        rule = "--peak is the output of `bops peak --json` with the memory bandwidth"
        peak = read_json(arguments.peak, rule, HostRoofs, "name such a file, or repeat that command")
        flops = peak.multiply_adds.get(precision)
        if flops is None:
            raise fault_of(arguments.peak, rule, "choose another --precision")(f"has no peak in {precision}")
        on = DeviceLimits(peak.model, flops, peak.memory_bytes_per_second, "measured")
    elif arguments.device is not None:
        on = device(arguments.device, precision)
    else:
        raise BadConfiguration("the roofline of a network needs a machine. Name it: --device NAME or --peak FILE")
    roofline = network_roofline(arguments.graph, graph, batch, precision, on)
    if arguments.measure:
        from aiperf.train.tracing.layer_times import layer_times

        step, measured = layer_times(graph, batch, precision)
        roofline = structs.replace(roofline, step_seconds=step, measured_seconds=measured)
    replace_file(page, network_page(roofline, [added_roof(each) for each in arguments.roof]).encode())
    rates = f"{si(on.flops_per_second, 'FLOPS')}, {si(on.memory_bytes_per_second, 'B/s')} ({on.origin})"
    title = Paragraph(f"{arguments.graph} in {precision} on {on.device}: {rates}")
    parts = (title, layer_table(roofline), Paragraph(f"wrote {page}"))
    print_result("aiperf-roofline", roofline.as_json(), parts, arguments)
