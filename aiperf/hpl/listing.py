"""Predictions of HPL for all process grids of a machine, size of the matrix, HPL's input file, and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.hpl.model import PMAPS, WORD_BYTES, Prediction, Reading, System, grids, padded, predict, smallest_order


def largest_order(system: System, share: float, nb: int) -> int:
    """Return the largest matrix order, a multiple of the block size `nb`, that fits into a share of the memory of all ranks."""
    if system.memory_bytes is None:
        raise BadConfiguration(f"'{system.name}' has no memory_bytes, which N follows from: add it, or give --n")
    n = nb * math.floor(math.sqrt(share * system.memory_bytes * system.ranks / WORD_BYTES) / nb)
    if n == 0:
        raise BadConfiguration(
            f"a share of {share:g} of the memory holds no {nb} x {nb} block: raise --share or lower --nb"
        )
    return n


def predictions(
    system: System, n: int, nb: int, reading: Reading = "placed", grid: tuple[int, int] | None = None
) -> list[Prediction]:
    """Return the predictions of HPL on all process grids of the system's ranks, or on one grid, the fastest first.

    `n`: matrix order. `nb`: block size. `reading`: interpretation of the paper's sums over layers: 'placed', 'panels' or
    'printed' (docs/hpl.md). `grid`: (P, Q), None for all grids. Both placements of ranks (PMAP) are tried. Column-major is
    listed if it differs from row-major. Grids for which N is too small, or without a prediction, are left out. Raise
    BadConfiguration if N does not fit into memory, the grid is too large, or no grid is left.
    """
    tried = grids(system.ranks) if grid is None else [grid]
    ranks = tried[0][0] * tried[0][1]
    if ranks > system.ranks:
        raise BadConfiguration(
            f"P x Q is at most {system.ranks}, the ranks of '{system.name}', but found {ranks}: choose a smaller grid"
        )
    if system.memory_bytes is not None and WORD_BYTES * n**2 > system.memory_bytes * ranks:
        most = math.isqrt(int(system.memory_bytes * ranks / WORD_BYTES))
        raise BadConfiguration(
            f"N is at most {most} in the memory of {ranks} ranks, but found {n}: choose a smaller --n"
        )
    fit = [(p, q) for p, q in tried if n >= smallest_order(nb, p)]
    if not fit:
        least = smallest_order(nb, tried[0][0])
        raise BadConfiguration(
            f"N is at least NB (1 + 2P/3) = {least}, but found {n}: choose a larger --n or a smaller --nb"
        )
    made: list[Prediction] = []
    for p, q in fit:
        both = [each for pmap in PMAPS if (each := predict(system, n, nb, p, q, pmap, reading)) is not None]
        made += both[:1] if len(both) == 2 and both[0].parts == both[1].parts else both
    if not made:
        groups = ", ".join(f"{layer.ranks} of '{layer.name}'" for layer in system.layers)
        raise BadConfiguration(
            f"ranks per group must form blocks of P x Q, but found {groups} for {_named(fit)}: choose another --grid, correct "
            "the ranks, or give the layer's groups as grid: [p, q]"
        )
    return sorted(made, key=lambda each: -each.flops)


def _named(tried: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{p}x{q}" for p, q in tried)


def half_width(
    prediction: Prediction, known: Mapping[str, float], intervals: Mapping[str, tuple[float, float]]
) -> float:
    """Return the half-width of the 95 % interval of the predicted FLOPS, as a share of them.

    The figures are measured independently, so that their relative half-widths, weighted by the elasticities, add in squares.
    """
    shares = prediction.elasticities()
    terms = [
        shares[name] * (high - low) / 2 / known[name]
        for name, (low, high) in intervals.items()
        if name in shares and known[name] > 0
    ]
    return math.sqrt(math.fsum(term**2 for term in terms))


def as_json(made: Sequence[Prediction]) -> dict[str, Any]:
    """Return the JSON object that --json prints for predictions with the same matrix order, block size and reading."""
    first = made[0]
    return {
        "n": first.n,
        "n_padded": padded(first.n, first.nb),
        "nb": first.nb,
        "reading": first.reading,
        "predictions": [prediction_as_json(each) for each in made],
        "elasticities": first.elasticities(),
    }


def prediction_as_json(of: Prediction) -> dict[str, Any]:
    """Return one prediction as a JSON object: grid, seconds, GFLOPS, efficiency (share of the peak), and seconds by part."""
    parts = [{"part": part.part, "layer": part.layer, "seconds": part.seconds} for part in of.parts]
    return {
        "p": of.p,
        "q": of.q,
        "pmap": of.pmap,
        "seconds": of.seconds,
        "gflops": of.flops / 1e9,
        "efficiency": of.efficiency,
        "parts": parts,
    }


def hpl_dat(orders: Sequence[int], nb: int, of_grids: Sequence[tuple[int, int]], pmap: str = "row") -> str:
    """Return the text of HPL's input file HPL.dat for the given matrix orders and process grids.

    Look-ahead is off, so that the parts of HPL run one after another.
    """
    template = files("aiperf.hpl").joinpath("HPL.dat").read_text("utf-8")
    rows, columns = zip(*of_grids, strict=True)
    lists = {"orders": orders, "rows": rows, "columns": columns}
    return template.format(
        order_count=len(orders),
        grid_count=len(of_grids),
        nb=nb,
        pmap=PMAPS.index("row" if pmap == "row" else "column"),
        **{name: " ".join(map(str, values)) for name, values in lists.items()},
    )
