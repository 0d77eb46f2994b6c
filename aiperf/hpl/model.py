"""Model of HPL's run time by Kim, Oh and Park (2021): matrix order n, block size nb, process grid p × q, communication layers.

Numbers in brackets are those of the paper. N is the order of the matrix, NB the block size, P × Q the process grid. γ is in
seconds per operation, β in seconds per word of 8 bytes, α in seconds, and log is log2. Errata are derived in docs/hpl.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, log2
from typing import Literal

WORD_BYTES = 8
Reading = Literal["placed", "panels", "printed"]
READINGS: tuple[Reading, ...] = ("placed", "panels", "printed")
Pmap = Literal["row", "column"]
PMAPS: tuple[Pmap, ...] = ("row", "column")
_POSITIVE = {"least": 1e-6, "most": 2.0**80}
_RANKS = {"least": 1, "most": 100_000_000}
PARTS = ("panel", "update", "pivot", "broadcast", "swap")


@dataclass(frozen=True, slots=True)
class Link:
    """Cost of messages over one layer: α in seconds for each message, β in seconds for each word of 8 bytes."""

    alpha: float
    beta: float


@dataclass(frozen=True, slots=True)
class HplLayer:
    """Layer of communication (memory, links within a node, or network) with its latency and bandwidth."""

    name: str
    ranks: int = field(metadata=_RANKS)
    """Ranks that one group of this layer joins. 1 for memory."""
    latency_seconds: float = field(metadata={"least": 0, "most": 1e6})
    bytes_per_second: float = field(metadata=_POSITIVE)
    grid: tuple[int, int] | None = None
    """Groups along P and along Q (default: from the placement of the ranks)."""
    source: str = ""

    @property
    def link(self) -> Link:
        """Cost of messages over this layer: latency α in seconds, and β in seconds per word of 8 bytes."""
        return Link(self.latency_seconds, WORD_BYTES / self.bytes_per_second)


@dataclass(frozen=True, slots=True)
class System:
    """Rates, latencies and memory of a machine that HPL runs on. Rates and memory are those of one rank (MPI process)."""

    name: str
    ranks: int = field(metadata=_RANKS)
    gemm_flops: float = field(metadata=_POSITIVE)
    layers: tuple[HplLayer, ...]
    """Nearest first. The last layer joins all ranks."""
    panel_flops: float | None = field(default=None, metadata=_POSITIVE)
    """Rate of panel factorisation in FLOPS (default: `gemm_flops`)."""
    peak_flops: float | None = field(default=None, metadata=_POSITIVE)
    memory_bytes: float | None = field(default=None, metadata={"above": 0, "most": 2.0**60})
    swap_bytes_per_second: float | None = field(default=None, metadata=_POSITIVE)
    """Rate of row swaps within a rank, which stride through memory (default: swaps cost what their links cost)."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Hardware numbers of an accelerator, from which its memory layer follows by equations (6) to (10)."""

    controllers: int = field(metadata=_RANKS)
    quadwords: int = field(metadata=_RANKS)
    """Words of 8 bytes that one memory controller reads at once."""
    memory_hertz: float = field(metadata=_POSITIVE)
    cores: int = field(metadata=_RANKS)
    flops_per_cycle: float = field(metadata=_POSITIVE)
    hertz: float = field(metadata=_POSITIVE)
    access_cycles: float = field(metadata=_POSITIVE)


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of one part of HPL (panel, update, pivot, broadcast or swap) in one layer of communication."""

    part: str
    layer: str
    latency_seconds: float
    rate_seconds: float
    """Seconds that are inversely proportional to a rate."""
    figure: str
    """Name of this rate."""

    @property
    def seconds(self) -> float:
        """Seconds of this part in this layer: latency + transfer for a layer of links, computing time otherwise."""
        return self.latency_seconds + self.rate_seconds


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted run of HPL for one matrix order, block size and process grid."""

    n: int
    nb: int
    p: int
    q: int
    pmap: Pmap
    reading: Reading
    parts: tuple[Part, ...]
    peak_flops: float | None
    """Peak of all ranks in FLOPS. None if unknown."""

    @property
    def seconds(self) -> float:
        """Predicted seconds of the run: the sum of all parts over all layers, equation (22)."""
        return fsum(part.seconds for part in self.parts)

    @property
    def flops(self) -> float:
        """Predicted rate in FLOPS, as HPL computes it: operations of N, not of the padded size."""
        return operations(self.n) / self.seconds

    @property
    def efficiency(self) -> float | None:
        """Predicted rate as a share of the peak of all ranks, 0..1. None if the peak is unknown."""
        return None if self.peak_flops is None else self.flops / self.peak_flops

    def seconds_of(self, part: str) -> float:
        """Return the predicted seconds of one part of HPL over all layers. `part`: panel, update, pivot, broadcast or swap."""
        return fsum(each.seconds for each in self.parts if each.part == part)

    def elasticities(self) -> dict[str, float]:
        """Return the gain of the predicted FLOPS in per cent for one per cent more of each figure, by name of the figure.

        Time is a sum of terms, each proportional to a latency or inversely proportional to a rate. An elasticity is therefore
        the share of these terms in the time. Latencies give negative values. Figures without effect are left out.
        """
        seconds: dict[str, list[float]] = {}
        for part in self.parts:
            seconds.setdefault(part.figure, []).append(part.rate_seconds)
            if part.layer:
                seconds.setdefault(f"{part.layer}.latency_seconds", []).append(-part.latency_seconds)
        whole = self.seconds
        shares = {figure: fsum(terms) / whole for figure, terms in seconds.items()}
        return {figure: value for figure, value in shares.items() if value}


def operations(n: float) -> float:
    """Return the floating-point operations that HPL counts for a matrix of order `n`: 2n³/3 + 3n²/2."""
    return 2 * n**3 / 3 + 3 * n**2 / 2


# --- all panels ---


def panels_compute(n: float, nb: int, p: int, gamma: float) -> float:
    """Return the seconds of factorising all panels (blocks of nb columns) of a run: a part of equation (25).

    `n`: matrix order. `p`: rows of the process grid. `gamma`: seconds per operation.
    """
    return gamma * n * nb * ((n - nb) / (2 * p) - nb / 3)


def updates_compute(n: float, nb: int, p: int, q: int, gamma: float) -> float:
    """Return the seconds of all updates (of the rest of the matrix after each panel) of a run: a part of equation (25).

    `n`: matrix order. `nb`: block size. `p` × `q`: process grid. `gamma`: seconds per operation.
    """
    return gamma * n * (n + nb) * (nb / (2 * q) + (2 * n + nb) / (3 * p * q))


# --- panels of one layer, from side m0 to side m ---


def layer_pivot(m0: float, m: float, nb: int, p: int, link: Link) -> float:
    """Return the seconds of the pivot search in the panels of one layer, equation (27).

    The layer covers the matrix from row `m0` to row `m`. `nb`: block size. `p`: rows of the process grid. `link`: cost of
    messages.
    """
    return nb * log2(p) * (link.alpha + link.beta * (2 * nb + 4)) * (m - m0) / nb


def layer_broadcast(m0: float, m: float, nb: int, p: int, link: Link) -> float:
    """Return the seconds of broadcasting the panels of one layer, equation (28) as printed.

    The layer covers the matrix from row `m0` to row `m`. `nb`: block size. `p`: rows of the process grid. `link`: cost of
    messages. Equations (13) and (15) are equal, although they are called calculation.
    """
    return link.alpha * (m - m0) / nb + link.beta * (m**2 - 2 * m * m0 - (m - m0) * nb + m0**2) / (2 * p)


def layer_swap(n0: float, n: float, nb: int, p: int, q: int, link: Link) -> float:
    """Return the seconds of exchanging rows after the panels of one layer, equation (29) as printed. (14) and (16) are equal.

    The layer covers the matrix from column `n0` to column `n`. `nb`: block size. `p` × `q`: process grid. `link`: cost of
    messages.
    """
    messages = (log2(p) + p - 1) * (n - n0) / nb
    return link.alpha * messages + 3 * link.beta * (n**2 - 2 * n * n0 + (n - n0) * nb + n0**2) / (2 * q)


def omitted_broadcast(whole: float, m0: float, m: float, p: int, link: Link) -> float:
    """Return the seconds that equation (28) omits: panels of a layer also cover the rows of the layers above it.

    `whole`: matrix order. The layer covers the matrix from row `m0` to row `m`. `p`: rows of the process grid. `link`: cost of
    messages.
    """
    return link.beta * (whole - m) * (m - m0) / p


def omitted_swap(whole: float, n0: float, n: float, q: int, link: Link) -> float:
    """Return the seconds that equation (29) omits: updates of a layer also cover the columns of the layers above it.

    `whole`: matrix order. The layer covers the matrix from column `n0` to column `n`. `q`: columns of the process grid. `link`:
    cost of messages.
    """
    return 3 * link.beta * (whole - n) * (n - n0) / q


# --- an accelerator as the first layer ---


def bandwidth_per_core(of: Accelerator) -> float:
    """Return an accelerator's memory bandwidth per core in words of 8 bytes per second, equation (6)."""
    return of.controllers * of.quadwords * of.memory_hertz / of.cores


def equivalent_bandwidth(of: Accelerator) -> float:
    """Return an accelerator's bandwidth as one layer in words per second: controllers × words at once × that of a core (7)."""
    return of.controllers * of.quadwords * bandwidth_per_core(of)


def accelerator_link(of: Accelerator) -> Link:
    """Return the cost of accesses to an accelerator's memory: α in seconds, and β in seconds per word, equations (8) and (9).

    Equation (8) prints cycles ÷ bandwidth, but α is cycles ÷ clock.
    """
    return Link(of.access_cycles / of.hertz, 1 / equivalent_bandwidth(of))


def peak(of: Accelerator) -> float:
    """Return an accelerator's peak in FLOPS, equation (10): cores × operations per cycle × clock."""
    return of.cores * of.flops_per_cycle * of.hertz


# --- placement of ranks ---


def padded(n: int, nb: int) -> int:
    """Return the matrix order `n` rounded up to a multiple of the block size `nb`, equation (17)."""
    return nb * math.ceil(n / nb)


def side(n_new: int, nb: int, groups: int) -> int:
    """Return the rows (or columns) of the matrix that one group of ranks holds, equations (18) to (21).

    `n_new`: padded matrix order. `nb`: block size. `groups`: number of groups along P for rows, along Q for columns.
    """
    return nb * math.ceil(n_new / (nb * groups))


def block(pmap: Pmap, p: int, q: int, ranks: int) -> tuple[int, int] | None:
    """Return (rows, columns) of the process grid that a group of consecutive ranks covers. None if it is no rectangle.

    `pmap`: placement of the ranks, 'row' (row by row) or 'column'. `p` × `q`: process grid. `ranks`: number of ranks of the
    group.

    >>> block("row", 2, 6, 4), block("row", 4, 3, 6), block("column", 2, 6, 4)
    (None, (2, 3), (2, 2))
    """
    along, across = (q, p) if pmap == "row" else (p, q)
    if along % ranks == 0:
        sides = (1, ranks)
    elif ranks % along == 0 and across % (ranks // along) == 0:
        sides = (ranks // along, along)
    else:
        return None
    return sides if pmap == "row" else (sides[1], sides[0])


def _block_of(layer: HplLayer, pmap: Pmap, p: int, q: int) -> tuple[int, int] | None:
    if layer.grid is None:
        return block(pmap, p, q, layer.ranks)
    groups_p, groups_q = layer.grid
    return (p // groups_p, q // groups_q) if p % groups_p == 0 and q % groups_q == 0 else None


def layers_of(system: System, ranks: int) -> tuple[HplLayer, ...]:
    """Return the communication layers that the first `ranks` ranks use, nearest first."""
    used = []
    for layer in system.layers:
        used.append(replace(layer, ranks=min(layer.ranks, ranks)))
        if layer.ranks >= ranks:
            break
    return (*used[:-1], replace(used[-1], ranks=ranks, grid=None))


# --- sums over the layers ---


def predict(
    system: System, n: int, nb: int, p: int, q: int, pmap: Pmap = "row", reading: Reading = "placed"
) -> Prediction | None:
    """Return the prediction of HPL on the first p · q ranks. None if groups of a layer are no rectangles of the process grid.

    `system`: rates and layers of the machine. `n`: matrix order. `nb`: block size. `p` × `q`: process grid, at most the ranks
    of the system. `pmap`: placement of the ranks on the grid, 'row' (row by row) or 'column'. `reading`: interpretation of the
    paper's sums over layers: 'placed', 'panels' or 'printed' (docs/hpl.md). 'placed' uses `n` unchanged, the others pad it by
    (17).
    """
    assert p * q <= system.ranks, f"{p} x {q} needs more than {system.ranks} ranks"
    layers = layers_of(system, p * q)
    blocks = [_block_of(layer, pmap, p, q) for layer in layers]
    known = [each for each in blocks if each is not None]
    if len(known) != len(layers):
        return None
    order = n if reading == "placed" else padded(n, nb)
    panel_rate = "gemm_flops" if system.panel_flops is None else "panel_flops"
    parts = [
        Part("panel", "", 0.0, panels_compute(order, nb, p, 1 / getattr(system, panel_rate)), panel_rate),
        Part("update", "", 0.0, updates_compute(order, nb, p, q, 1 / system.gemm_flops), "gemm_flops"),
    ]
    if reading == "placed":
        parts += _placed(system, layers, known, order, nb, p, q)
    else:
        parts += _by_side(layers, known, order, nb, p, q, is_printed=reading == "printed")
    peak_flops = None if system.peak_flops is None else system.peak_flops * p * q
    return Prediction(n, nb, p, q, pmap, reading, tuple(parts), peak_flops)


def _exchange_part(part: str, layer: HplLayer, latency: float, rate: float) -> Part:
    return Part(part, layer.name, latency, rate, f"{layer.name}.bytes_per_second")


def _placed(
    system: System, layers: Sequence[HplLayer], blocks: Sequence[tuple[int, int]], n: int, nb: int, p: int, q: int
) -> Iterator[Part]:
    """Yield the parts of (26), each through the outermost layer that its process row or column crosses."""
    column = layers[next(index for index, (rows, _) in enumerate(blocks) if rows == p)]
    row = layers[next(index for index, (_, columns) in enumerate(blocks) if columns == q)]
    alpha, beta = Link(column.link.alpha, 0.0), Link(0.0, column.link.beta)
    yield _exchange_part("pivot", column, layer_pivot(0, n, nb, p, alpha), layer_pivot(0, n, nb, p, beta))
    sent = Link(row.link.alpha, 0.0), Link(0.0, row.link.beta)
    yield _exchange_part("broadcast", row, *(layer_broadcast(0, n, nb, p, each) for each in sent))
    local = system.swap_bytes_per_second
    if local is None or p > 1:
        yield _exchange_part("swap", column, layer_swap(0, n, nb, p, q, alpha), layer_swap(0, n, nb, p, q, beta))
    if local is not None:
        strided = layer_swap(0, n, nb, p, q, Link(0.0, WORD_BYTES / local))
        yield Part("swap", layers[0].name, 0.0, strided, "swap_bytes_per_second")


def _by_side(
    layers: Sequence[HplLayer], blocks: Sequence[tuple[int, int]], n: int, nb: int, p: int, q: int, *, is_printed: bool
) -> Iterator[Part]:
    """Yield the parts of (26) for each layer: (27) to (29), with the words of the layers above unless `is_printed`."""
    m0 = n0 = 0
    for layer, (rows, columns) in zip(layers, blocks, strict=True):
        m, n_side = side(n, nb, p // rows), side(n, nb, q // columns)
        costs: dict[str, list[float]] = {"pivot": [], "broadcast": [], "swap": []}
        for link in (Link(layer.link.alpha, 0.0), Link(0.0, layer.link.beta)):
            omitted = (0.0, 0.0)
            if not is_printed:
                omitted = omitted_broadcast(n, m0, m, p, link), omitted_swap(n, n0, n_side, q, link)
            costs["pivot"].append(layer_pivot(m0, m, nb, p, link))
            costs["broadcast"].append(layer_broadcast(m0, m, nb, p, link) + omitted[0])
            costs["swap"].append(layer_swap(n0, n_side, nb, p, q, link) + omitted[1])
        for part, (latency, rate) in costs.items():
            yield _exchange_part(part, layer, latency, rate)
        m0, n0 = m, n_side


def grids(ranks: int) -> list[tuple[int, int]]:
    """Return all process grids (P, Q) with P · Q = `ranks`, P ascending."""
    small = [each for each in range(1, math.isqrt(ranks) + 1) if ranks % each == 0]
    return [(each, ranks // each) for each in sorted({*small, *(ranks // each for each in small)})]


def guideline(ranks: int) -> tuple[int, int]:
    """Return the process grid (P, Q) that the paper recommends for `ranks` ranks: P ≤ Q, as square as possible."""
    return max((p, q) for p, q in grids(ranks) if p <= q)


def smallest_order(nb: int, p: int) -> int:
    """Return the smallest matrix order for which all panels together have no negative time: (1) subtracts NB/3 rows of each."""
    return math.ceil(nb * (1 + 2 * p / 3))


def difference(predicted: float, measured: float) -> float:
    """Return predicted / measured − 1, Diff of equations (31) and (32), whose absolute value the paper prints."""
    return predicted / measured - 1
