"""Equations of the model: closed forms against sums over panels, and laws that hold for every machine."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.hpl import model
from aiperf.hpl.model import (
    PMAPS,
    READINGS,
    Accelerator,
    HplLayer,
    Link,
    Prediction,
    Reading,
    System,
    difference,
    guideline,
    predict,
)
from tests.hpl import paper

P100 = Accelerator(4, 16, 1.43e9, 3584, 1, 1.328e9, 1029)
EXACT = 1e-12
orders = st.builds(lambda nb, panels: (nb, nb * panels), st.integers(1, 400), st.integers(1, 300))
sides = st.integers(1, 12)
links = st.builds(Link, st.floats(0, 1e-3), st.floats(1e-12, 1e-6))


def close(value: float) -> object:
    return pytest.approx(value, rel=EXACT)


@given(orders, sides, sides, links)
def test_closed_forms_are_sums_over_panels(order: tuple[int, int], p: int, q: int, link: Link) -> None:
    nb, n = order
    panels, gamma = range(1, n // nb + 1), 1e-10
    panel = fsum(paper.panel_compute(i, n, nb, p, gamma) for i in panels)
    update = fsum(paper.update_compute(i, n, nb, p, q, gamma) for i in panels)
    pivot = fsum(paper.panel_pivot(nb, p, link) for _ in panels)
    broadcast = fsum(paper.panel_broadcast(i, n, nb, p, link) for i in panels)
    swap = fsum(paper.update_swap(i, n, nb, p, q, link) for i in panels)
    # Panels may have negative computation: (1) takes NB/3 away. The rounding error is relative to the positive terms.
    scale = gamma * n**2 * nb + update

    assert model.panels_compute(n, nb, p, gamma) == pytest.approx(panel, abs=EXACT * scale)
    assert model.updates_compute(n, nb, p, q, gamma) == close(update)
    assert paper.compute_seconds(n, nb, p, q, gamma) == pytest.approx(panel + update, abs=EXACT * scale)
    assert model.layer_pivot(0, n, nb, p, link) == close(pivot)
    assert model.layer_broadcast(0, n, nb, p, link) == pytest.approx(
        broadcast, abs=EXACT * (broadcast + link.beta * n * n)
    )
    assert model.layer_swap(0, n, nb, p, q, link) == close(swap)
    assert paper.exchange_seconds(n, nb, p, q, link) == close(pivot + broadcast + swap)


@given(orders, sides, sides, links, st.data())
def test_panels_of_a_layer_are_summed(order: tuple[int, int], p: int, q: int, link: Link, data: st.DataObject) -> None:
    nb, n = order
    first = data.draw(st.integers(0, n // nb - 1))
    last = data.draw(st.integers(first + 1, n // nb))
    m0, m, panels = first * nb, last * nb, range(first + 1, last + 1)
    broadcast = fsum(paper.panel_broadcast(i, n, nb, p, link) for i in panels)
    swap = fsum(paper.update_swap(i, n, nb, p, q, link) for i in panels)
    rounding = EXACT * (broadcast + swap + link.beta * n**2)

    closed = model.layer_broadcast(m0, m, nb, p, link) + model.omitted_broadcast(n, m0, m, p, link)
    assert closed == pytest.approx(broadcast, abs=rounding)
    closed = model.layer_swap(m0, m, nb, p, q, link) + model.omitted_swap(n, m0, m, q, link)
    assert closed == pytest.approx(swap, abs=rounding)


def exchange(found: Prediction | None) -> float:
    assert found is not None
    return fsum(part.seconds for part in found.parts if part.layer)


def cut(system: System, *ranks: int) -> System:
    """Return the system with its last layer cut into several of equal figures."""
    last = system.layers[-1]
    inner = [replace(last, name=f"inner {each}", ranks=each) for each in ranks]
    return replace(system, layers=(*system.layers[:-1], *inner, last))


@given(st.sampled_from([(2, 2), (2, 4), (4, 4), (1, 8), (8, 2)]), st.integers(1, 5000), st.integers(1, 300), links)
def test_cutting_a_layer_leaves_panels_unaltered(grid: tuple[int, int], n: int, nb: int, link: Link) -> None:
    p, q = grid
    last = HplLayer("net", p * q, link.alpha, 8 / link.beta)
    system = System("cut", p * q, 1e12, (last,))
    whole = exchange(predict(system, n, nb, p, q, reading="panels"))

    for parts in ((1,), (2,), (1, 2)):
        found = predict(cut(system, *parts), n, nb, p, q, reading="panels")
        assert exchange(found) == pytest.approx(whole, rel=1e-11)


@given(orders, sides, sides, links)
def test_readings_agree_for_one_layer(order: tuple[int, int], p: int, q: int, link: Link) -> None:
    nb, n = order
    system = System("one", p * q, 1e12, (HplLayer("net", p * q, link.alpha, 8 / link.beta),))
    closed = paper.compute_seconds(n, nb, p, q, 1e-12) + paper.exchange_seconds(
        n, nb, p, q, Link(link.alpha, link.beta)
    )

    for reading in READINGS:
        found = predict(system, n, nb, p, q, reading=reading)
        assert found is not None
        assert found.seconds == pytest.approx(closed, rel=1e-11)


@st.composite
def systems(draw: st.DrawFn) -> System:
    rate = st.floats(1e8, 1e12)
    latency = st.floats(1e-9, 1e-3)
    node = draw(st.sampled_from([2, 4]))
    return System(
        "drawn",
        16,
        draw(st.floats(1e9, 1e13)),
        tuple(
            HplLayer(name, ranks, draw(latency), draw(rate)) for name, ranks in (("ram", 1), ("bus", node), ("net", 16))
        ),
        panel_flops=draw(st.floats(1e8, 1e13)),
        swap_bytes_per_second=draw(st.none() | rate),
    )


grids_of_16 = st.sampled_from(model.grids(16))


@given(systems(), st.integers(5000, 10**6), grids_of_16, st.sampled_from(PMAPS), st.sampled_from(READINGS), st.data())
def test_better_figures_never_lower_flops(
    system: System, n: int, grid: tuple[int, int], pmap: model.Pmap, reading: Reading, data: st.DataObject
) -> None:
    before = predict(system, n, 192, *grid, pmap, reading)
    place = data.draw(st.integers(0, len(system.layers) - 1))
    layer = system.layers[place]
    better = data.draw(
        st.sampled_from(
            [
                replace(layer, bytes_per_second=layer.bytes_per_second * 1.5),
                replace(layer, latency_seconds=layer.latency_seconds / 1.5),
            ]
        )
    )
    layers = (*system.layers[:place], better, *system.layers[place + 1 :])
    faster_panels = replace(system, panel_flops=(system.panel_flops or 0) * 1.5)

    assert before is not None
    for changed in (replace(system, layers=layers), faster_panels):
        after = predict(changed, n, 192, *grid, pmap, reading)
        assert after is not None
        assert after.flops >= before.flops * (1 - EXACT)


@given(systems(), st.integers(5000, 10**6), grids_of_16, st.sampled_from(READINGS))
def test_elasticities_add_up_to_one(system: System, n: int, grid: tuple[int, int], reading: Reading) -> None:
    found = predict(system, n, 192, *grid, "row", reading)
    assert found is not None
    shares = found.elasticities()
    latencies = fsum(value for figure, value in shares.items() if figure.endswith("latency_seconds"))

    assert fsum(shares.values()) - 2 * latencies == pytest.approx(1, abs=1e-12)
    assert latencies <= 0


@given(systems(), st.integers(10_000, 10**6), grids_of_16)
def test_elasticity_is_the_slope_of_flops(system: System, n: int, grid: tuple[int, int]) -> None:
    before = predict(system, n, 192, *grid)
    after = predict(replace(system, gemm_flops=system.gemm_flops * (1 + 1e-7)), n, 192, *grid)
    assert before is not None
    assert after is not None

    assert (after.flops / before.flops - 1) / 1e-7 == pytest.approx(before.elasticities()["gemm_flops"], abs=1e-5)


def test_one_rank_without_exchange_tends_to_gemm_rate() -> None:
    system = System("ideal", 1, 1e12, (HplLayer("memory", 1, 0.0, 1e300),))
    rates = [predict(system, n, 192, 1, 1) for n in (10**4, 10**5, 10**7)]

    shortfalls = [1 - each.flops / 1e12 for each in rates if each is not None]
    assert shortfalls == sorted(shortfalls, key=abs, reverse=True)
    assert abs(shortfalls[-1]) < 1e-4


def test_p100_follows_from_its_accelerator() -> None:
    assert model.bandwidth_per_core(P100) * 8 == pytest.approx(204.3e6, rel=1e-3)
    assert model.equivalent_bandwidth(P100) * 8 == pytest.approx(13.075e9, rel=1e-4)
    assert model.peak(P100) == pytest.approx(4.76e12, rel=1e-3)
    assert model.accelerator_link(P100).alpha == pytest.approx(1029 / 1.328e9)
    assert model.padded(44_000, 384) == 44_160


@pytest.mark.parametrize(("bandwidth", "gflops"), [(13.0e9, 3840.9), (13.075e9, 3844.4), (732.2e9, 4573)])
def test_p100_printed_reading(bandwidth: float, gflops: float) -> None:
    """The paper prints 3840. Its 4347 for the total bandwidth does not follow from its equations."""
    system = System("P100", 1, 4.76e12, (HplLayer("memory", 1, model.accelerator_link(P100).alpha, bandwidth),))
    found = predict(system, 44_000, 384, 1, 1, reading="printed")

    assert found is not None
    assert found.flops / 1e9 == pytest.approx(gflops, abs=0.5 if gflops > 4000 else 0.1)


def test_errata_third_term_has_n() -> None:
    """Selene by (11), with N and with N² in the third term."""
    n, nb, p, q, gamma = 3_382_272, 384, 40, 44, 1 / 19.494e12
    third = gamma * nb**2 * ((3 * p + 2) - (2 * p + 3) * q) * n / (6 * p * q)
    right = paper.compute_seconds(n, nb, p, q, gamma)

    assert right == pytest.approx(757, abs=0.5)
    assert right - third + third * n == pytest.approx(-28_169, abs=1)


def test_errata_layers_are_no_separate_matrices() -> None:
    one = System("one", 4, 1e12, (HplLayer("net", 4, 5e-6, 13e9),))
    two = cut(one, 1)

    def seconds(system: System, reading: Reading) -> float:
        return exchange(predict(system, 44_160, 384, 2, 2, reading=reading))

    assert [seconds(one, each) for each in ("panels", "printed")] == pytest.approx([1.4488] * 2, abs=5e-5)
    assert seconds(two, "panels") == pytest.approx(1.4488, abs=5e-5)
    assert seconds(two, "printed") == pytest.approx(0.8488, abs=5e-5)


@given(st.integers(1, 24), st.integers(1, 24), st.integers(1, 24), st.sampled_from(PMAPS))
def test_blocks_are_the_placed_ranks(p: int, q: int, ranks: int, pmap: model.Pmap) -> None:
    """Every group of consecutive ranks covers a rectangle of the size of the block, by enumeration."""
    found = model.block(pmap, p, q, ranks)
    if found is None:
        return
    places = [(r // q, r % q) if pmap == "row" else (r % p, r // p) for r in range(p * q)]
    for start in range(0, p * q, ranks):
        rows, columns = zip(*places[start : start + ranks], strict=True)
        assert (max(rows) - min(rows) + 1, max(columns) - min(columns) + 1) == found
        assert len(set(places[start : start + ranks])) == ranks


def test_group_without_a_block_has_no_prediction() -> None:
    system = System("odd", 12, 1e12, (HplLayer("bus", 4, 0.0, 1e9), HplLayer("net", 12, 0.0, 1e9)))

    assert predict(system, 1000, 10, 2, 6, "row") is None
    assert predict(system, 1000, 10, 2, 6, "column") is not None


def test_layers_grid_replaces_the_placement() -> None:
    bus = HplLayer("bus", 4, 0.0, 1e9, grid=(2, 3))
    system = System("odd", 12, 1e12, (bus, HplLayer("net", 12, 0.0, 1e9)))

    assert predict(system, 1000, 10, 4, 3, "row", "panels") is not None
    assert predict(system, 1000, 10, 3, 4, "row", "panels") is None


def test_original_model_is_the_leading_terms() -> None:
    link = Link(1e-6, 1e-9)
    ratio = [
        paper.original_seconds(n, 192, 4, 8, 1e-12, link)
        / (paper.compute_seconds(n, 192, 4, 8, 1e-12) + paper.exchange_seconds(n, 192, 4, 8, link))
        for n in (10**4, 10**5, 10**6)
    ]

    assert ratio == sorted(ratio)
    assert ratio[-1] == pytest.approx(1, abs=3e-3)


def test_swaps_within_a_rank_have_their_own_rate() -> None:
    """With a rate of row swaps, memory carries the swaps of each rank, and the column's layer the exchange."""
    system = System(
        "two", 2, 1e11, (HplLayer("ram", 1, 0.0, 1e10), HplLayer("bus", 2, 0.0, 1e9)), swap_bytes_per_second=1e9
    )
    wide, high = predict(system, 4000, 200, 1, 2), predict(system, 4000, 200, 2, 1)
    assert wide is not None
    assert high is not None

    assert [part.figure for part in wide.parts if part.part == "swap"] == ["swap_bytes_per_second"]
    assert [part.layer for part in high.parts if part.part == "swap"] == ["bus", "ram"]


def test_guideline_is_the_squarest_grid() -> None:
    assert [guideline(ranks) for ranks in (1, 2, 12, 36, 152_064)] == [(1, 1), (1, 2), (3, 4), (6, 6), (384, 396)]


def test_difference_is_signed() -> None:
    assert difference(3840, 3882) == pytest.approx(-0.0108, abs=5e-5)
