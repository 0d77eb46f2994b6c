"""`python -m aiperf hpl`: predict the speed of HPL (High Performance Linpack), and compare it with a real run of HPL."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiperf.cli.arguments import add_number
from aiperf.cli.output import print_folded, print_parts, print_result
from aiperf.errors import BadConfiguration, explained
from aiperf.files import given_path, host_name
from aiperf.mistyped import require_shell_words
from aiperf.page.section import Items, rows

if TYPE_CHECKING:
    from aiperf.hpl.system_file import SystemFile
    from aiperf.page.section import Part

DESCRIPTION = """Predicts HPL by layers of communication and compares the prediction with HPL as measured. Without an action it
calibrates this machine, predicts, runs HPL, names the part that missed, and writes hpl.html."""
EXAMPLES = (
    "",
    "predict examples/hpl/p100.yaml --nb 384 --vary PCIe.bytes_per_second=6e9,12e9",
    "calibrate --out here.yaml",
    "measure --system here.yaml --n 4000,8000",
    "explain HPL.out --system here.yaml --fit node",
)
READINGS = ("placed", "panels", "printed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")

    def action(name: str, meaning: str) -> argparse.ArgumentParser:
        return actions.add_parser(
            name, help=meaning, description=meaning[:1].upper() + meaning[1:] + ".", allow_abbrev=False
        )

    predict = action("predict", "predict HPL on a system, without running anything")
    predict.add_argument("system", metavar="SYSTEM.yaml", type=given_path, help="figures of the machine (docs/hpl.md)")
    predict.add_argument("--n", metavar="N,N", help="orders of the matrix (default: the largest in memory)")
    _add_nb(predict)
    predict.add_argument("--grid", metavar="PxQ", help="one process grid (default: all)")
    add_number(
        predict, "--share", "share of the memory for the matrix", float, default=0.8, above=0, most=1, metavar="SHARE"
    )
    _add_reading(predict)
    predict.add_argument("--vary", metavar="FIGURE=A,B,C", help="also predict with other values of one figure")
    predict.add_argument(
        "--out", metavar="DIR", type=given_path, help="write HPL.dat, and with several N the curve, into this folder"
    )
    predict.add_argument("--json", action="store_true", help="print JSON")

    calibrate = action("calibrate", "measure the figures of this machine")
    _add_launch(calibrate)
    _add_nb(calibrate)
    calibrate.add_argument("--out", metavar="FILE", type=given_path, required=True, help="file to write, as here.yaml")

    measure = action("measure", "predict, then run real HPL")
    measure.add_argument(
        "--system", metavar="FILE", type=given_path, help="calibration of this machine (default: calibrate first)"
    )
    _add_run(measure)

    explain = action("explain", "compare outputs of HPL from elsewhere with their predictions")
    explain.add_argument("outputs", metavar="HPL.out", nargs="+", type=given_path, help="output of HPL")
    explain.add_argument("--system", metavar="FILE", type=given_path, required=True, help="figures of the machine")
    explain.add_argument("--fit", metavar="LAYER", help="find the bandwidth of this layer that explains the outputs")
    explain.add_argument("--out", metavar="DIR", type=given_path, help="write the page into this folder")
    _add_reading(explain)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_launch(parser)
    parser.add_argument("--binary", metavar="PROGRAM", help="HPL to run, with arguments (default: xhpl, else hpcc)")
    parser.add_argument("--n", metavar="N,N", default="4000,8000", help="orders of the matrix (default 4000,8000)")
    _add_nb(parser)
    parser.add_argument("--grid", metavar="PxQ,PxQ", help="process grids (default: 1x1 and the two best)")
    add_number(parser, "--repeat", "runs of each size and grid", default=5, least=1, most=1000)
    parser.add_argument(
        "--out", metavar="DIR", type=given_path, default=Path("runs/hpl"), help="output folder (default runs/hpl)"
    )
    _add_reading(parser)


def _add_launch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--launch", metavar="COMMAND", help="launch command with {ranks} and {threads} (default: OpenMPI's mpirun)"
    )
    add_number(parser, "--ranks", "MPI ranks", default_in_words="physical cores ÷ threads", least=1, most=10**6)
    add_number(parser, "--threads", "threads of a rank", default=1, least=1, most=4096)
    parser.add_argument(
        "--blas",
        metavar="FLAGS",
        default="-lopenblas",
        help="flags that link HPL's BLAS, with CBLAS and LAPACK, to the calibration (default -lopenblas)",
    )


def _add_nb(parser: argparse.ArgumentParser) -> None:
    add_number(parser, "--nb", "block size NB", default=192, least=1, most=1024, metavar="NB")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reading",
        choices=READINGS,
        default="placed",
        help="interpretation of the layered sums (default: placed; docs/hpl.md)",
    )


def _grid(word: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})[xX](\d{1,9})", word)
    if match is None or 0 in (grid := (int(match[1]), int(match[2]))):
        raise BadConfiguration(
            f"--grid is P x Q, as 2x4, but found {word!r}: write two whole numbers above 0 with x between them"
        )
    return grid


def _orders(word: str) -> list[int]:
    if not re.fullmatch(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*", word):
        raise BadConfiguration(
            f"--n is one or several orders, as 4000,8000, but found {word!r}: write whole numbers above 0"
        )
    return [int(each) for each in word.split(",")]


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    require_shell_words(arguments, "launch", "blas", "binary")
    actions: dict[str | None, Callable[[argparse.Namespace], None]] = {
        None: _everything,
        "predict": _predict,
        "calibrate": _calibrate,
        "measure": _everything,
        "explain": _explain,
    }
    actions[arguments.action](arguments)
    return 0


def _predict(arguments: argparse.Namespace) -> None:
    from aiperf.atomic_files import replace_file
    from aiperf.hpl import listing, page, system_file
    from aiperf.units import change, count

    of = system_file.read(arguments.system)
    system, nb = of.system, arguments.nb
    grid = None if arguments.grid is None else _grid(arguments.grid)
    orders = [listing.largest_order(system, arguments.share, nb)] if arguments.n is None else _orders(arguments.n)
    n = max(orders)
    made = listing.predictions(system, n, nb, arguments.reading, grid)
    best = made[0]
    at_best = (best.p, best.q)
    curve = [listing.predictions(system, order, nb, arguments.reading, at_best)[0] for order in sorted(set(orders))]
    varied = []
    if arguments.vary is not None:
        figure, values = _varied(arguments.vary)
        for value in values:
            other = system_file.changed(system, figure, value)
            varied.append((value, listing.predictions(other, n, nb, arguments.reading, grid)[0]))
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        text = listing.hpl_dat([each.n for each in curve], nb, [at_best], best.pmap)
        replace_file(arguments.out / "HPL.dat", text.encode())
        if len(curve) > 1:
            page.write_predictions(of, curve, arguments.out)
    content: dict[str, Any] = listing.as_json(made)
    parts: list[Part] = [*page.prediction_parts(of, made)]
    if len(curve) > 1:
        content["curve"] = [{"n": each.n, **listing.prediction_as_json(each)} for each in curve]
        parts.append(page.predicted(of, curve, "orders", f"Predicted on {best.p} x {best.q}"))
    if varied:
        shares = [(value, each, each.elasticities()) for value, each in varied]
        content["varied"] = [
            {"value": value, **listing.prediction_as_json(each), "elasticities": there} for value, each, there in shares
        ]
        cells = [
            (f"{value:g}", page.grid(each), count(each.flops / 1e9, 1), change(each.flops / best.flops - 1),
             f"{there.get(figure, 0.0):+.4f}")
            for value, each, there in shares
        ]  # fmt: skip
        heads = (f">{figure}", "grid", ">predicted GFLOPS", ">change", ">elasticity on this grid")
        parts.append(rows("varied", f"Predicted with other values of {figure}", heads, cells))
    if arguments.out is not None:
        drawn = [f"curve: {arguments.out / 'hpl.html'}"] if len(curve) > 1 else []
        parts.append(Items((f"HPL.dat of the best grid: {arguments.out / 'HPL.dat'}", *drawn)))
    print_result("aiperf-hpl", content, parts, arguments)


def _varied(word: str) -> tuple[str, list[float]]:
    figure, _, values = word.partition("=")
    try:
        return figure, [float(each) for each in values.split(",")]
    except ValueError:
        raise BadConfiguration(
            f"--vary is FIGURE=A,B,C with numbers, but found {word!r}: write for example gemm_flops=1e12,2e12"
        ) from None


def _calibrate(arguments: argparse.Namespace) -> None:
    from aiperf.atomic_files import require_writable
    from aiperf.hpl import system_file
    from aiperf.hpl.calibrate import remarks
    from aiperf.hpl.page import figure_table

    with explained(arguments.out, "cannot be written", "Name a file in a folder of yours: --out FILE"):
        require_writable(arguments.out)
    of = _calibration(arguments)
    system_file.write(arguments.out, of)
    print_parts((figure_table(of), Items((*remarks(of), str(arguments.out)))))


def _calibration(arguments: argparse.Namespace) -> SystemFile:

    from aiperf.hpl.calibrate import calibrate
    from aiperf.hpl.mpi import default_ranks

    threads = arguments.threads
    ranks = arguments.ranks or max(1, default_ranks() // threads)
    return calibrate(arguments.launch, ranks, threads, arguments.blas, arguments.nb, host_name())


def _everything(arguments: argparse.Namespace) -> None:
    """Calibrate unless `measure --system` names a calibration, predict, run HPL, and write the page."""
    from aiperf.hpl import page, system_file
    from aiperf.hpl.calibrate import remarks, require_this_node
    from aiperf.hpl.cases import find_binary, measure
    from aiperf.hpl.listing import predictions
    from aiperf.units import share

    orders = _orders(arguments.n)
    grids = [] if arguments.grid is None else [_grid(each) for each in arguments.grid.split(",")]
    binary = find_binary(arguments.binary)
    given = getattr(arguments, "system", None)
    if given is not None:
        of = system_file.read(given)
        require_this_node(of, given, arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if given is None:
        print_folded(["calibrating this machine …"])
        of = _calibration(arguments)
        system_file.write(arguments.out / "here.yaml", of)
    if not grids:
        best = [(each.p, each.q) for each in predictions(of.system, max(orders), arguments.nb, arguments.reading)]
        grids = list(dict.fromkeys([(1, 1), *dict.fromkeys(best)]))[:3]
    program = Path(binary[0]).name
    print_folded(
        [f"running {program}: {arguments.repeat} x N {arguments.n} on {', '.join(f'{p} x {q}' for p, q in grids)} …"]
    )
    if program == "hpcc":
        print_folded(
            [
                f"  hpcc runs all its tests in each of {arguments.repeat * len(grids)} launches, HPL is one of them: "
                "tools/build_hpl.sh builds HPL alone"
            ]
        )
    measured = measure(
        of,
        arguments.launch,
        arguments.threads,
        binary,
        orders,
        arguments.nb,
        grids,
        arguments.repeat,
        arguments.reading,
        arguments.out,
        lambda line: print_folded([line]),
    )
    notes = remarks(of) if of.calibration else []
    written = page.write(of, measured.cases, arguments.out, measured.loads, notes)
    print_folded([*(case.gap_in_words() for case in measured.cases), *notes])
    print_folded(
        [
            f"load: other programs used at most {share(max(measured.loads), 0)} of the processors while HPL ran",
            str(written),
        ]
    )


def _explain(arguments: argparse.Namespace) -> None:
    from aiperf.hpl import page, system_file
    from aiperf.hpl.cases import cases, fit_bandwidth
    from aiperf.hpl.output import read_output

    of = system_file.read(arguments.system)
    outputs = {path: read_output(path) for path in arguments.outputs}
    runs = [run for output in outputs.values() for run in output.runs]
    notes = [
        f"{path}: left out, since HPL printed 0.00 s: {'; '.join(output.too_short)}"
        for path, output in outputs.items()
        if output.too_short
    ]
    notes += [
        f"{path}: {output.mixed} computes in mixed precision: the rates of SYSTEM.yaml must be of its precision. LU GFLOPS are "
        "compared, since the refinement of the solution is no part of the model"
        for path, output in outputs.items()
        if output.mixed is not None
    ]
    if arguments.fit is not None:
        of = fit_bandwidth(of, arguments.fit, runs, arguments.reading)
        figure = f"{arguments.fit}.bytes_per_second"
        notes += [f"{figure} {system_file.figures(of.system)[figure]:.4g} is fitted to these outputs, not measured"]
    compared = cases(of, runs, arguments.reading)
    print_folded([*(case.gap_in_words() for case in compared), *notes])
    if arguments.out is not None:
        print_folded([str(page.write(of, compared, arguments.out, [], notes))])
