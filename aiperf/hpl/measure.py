"""Runs of real HPL: predicted first, then launched with sizes and grids interleaved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.atomic_files import replace_file
from aiperf.errors import BadConfiguration
from aiperf.hpl.cases import Case, cases
from aiperf.hpl.listing import hpl_dat, prediction_as_json, predictions
from aiperf.hpl.model import Reading
from aiperf.hpl.mpi import launch
from aiperf.hpl.output import Measured, parsed
from aiperf.hpl.system_file import SystemFile

BINARIES = ("xhpl", "hpcc")
"""Programs to look for, the first choice first."""
_HPCC_INPUT = "##### separator #####\n0\n0\n0\n0\n"
"""Lines that hpcc reads after those of HPL: no further sizes of its other tests."""
STARTUP_SECONDS = 120.0
SLOWEST = 50.0
"""A run may take this many times its predicted time before it is ended."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Predicted and measured runs of this machine."""

    cases: tuple[Case, ...]
    binary: str
    loads: tuple[float, ...]
    """Share of the processor time that other programs used, by launch."""


def find_binary(given: str | None) -> Path:
    """Return the program: `given`, else xhpl or hpcc from PATH. Raises BadConfiguration if there is none."""
    for name in BINARIES if given is None else (given,):
        if (found := shutil.which(name)) is not None:
            return Path(found).resolve()
    raise BadConfiguration(
        f"HPL is needed, but found no program {given or ' or '.join(BINARIES)!r}: give --binary, use tools/build_hpl.sh, "
        "or install Debian's hpcc (apt-get install hpcc)"
    )


def measure(
    of: SystemFile,
    template: str,
    binary: Path,
    orders: Sequence[int],
    nb: int,
    grids: Sequence[tuple[int, int]],
    repeats: int,
    reading: Reading,
    folder: Path,
) -> Measurement:
    """Write the predictions, then run HPL. Each repeat runs all grids, and each grid all sizes.

    Raises:
        BadConfiguration: HPL failed, or a result is not valid.
    """
    made = {(n, grid): predictions(of.system, n, nb, reading, grid)[0] for grid in grids for n in orders}
    text = json.dumps([{"n": n, **prediction_as_json(each)} for (n, _), each in made.items()], indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "predictions.json", text.encode())
    runs: list[Measured] = []
    loads = []
    for repeat in range(repeats):
        for place in range(len(grids)):
            p, q = grids[(place + repeat) % len(grids)]
            turned = [*orders[repeat % len(orders) :], *orders[: repeat % len(orders)]]
            input_text = hpl_dat(turned, nb, [(p, q)], made[orders[0], (p, q)].pmap)
            inputs = {"HPL.dat": input_text, "hpccinf.txt": input_text + _HPCC_INPUT}
            limit = STARTUP_SECONDS + SLOWEST * sum(made[n, (p, q)].seconds for n in orders)
            run = launch(template, p * q, [str(binary)], limit, inputs, result="hpccoutf.txt")
            loads.append(run.others_share)
            name = f"HPL-{repeat + 1}-{p}x{q}.out"
            replace_file(folder / name, run.output.encode())
            runs += parsed(run.output, name)
    return Measurement(tuple(cases(of, runs, reading)), str(binary), tuple(loads))
