"""Networks: closed forms against counts of drawn links, published figures, and laws of the all-reduce models."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.scaling.topology import (
    LinkNetwork,
    as_json,
    bisection_seconds,
    links_seconds,
    network_of,
    ring_seconds,
    torus_seconds,
    tree_seconds,
)

GRADIENTS = 102_228_128
"""Bytes of ResNet-50's gradients in FP32."""
TORI = [
    *((x, y) for x in range(1, 11) for y in range(1, x + 1) if x * y <= 20 and x * y > 1),
    *[(13, 1), (16, 1), (2, 2, 2), (4, 2, 2), (3, 2, 2)],
]


def wires(network: LinkNetwork) -> list[tuple[int, int]]:
    """Draw each wire between two nodes. The switch is no node."""
    if network.kind == "tree":
        return [((node - 1) // 2, node) for node in range(1, network.nodes)]
    places = list(product(*(range(edge) for edge in network.edges)))
    number = {place: index for index, place in enumerate(places)}
    return [
        (number[place], number[(*place[:axis], (place[axis] + 1) % edge, *place[axis + 1 :])])
        for place in places
        for axis, edge in enumerate(network.edges)
        if edge > 1
    ]


def smallest_cut(network: LinkNetwork) -> int:
    """Try all halves."""
    drawn, nodes = wires(network), network.nodes
    return min(
        sum((left in half) != (right in half) for left, right in drawn)
        for half in map(set, combinations(range(nodes), nodes // 2))
        if nodes % 2 or 0 in half
    )


def longest_way(network: LinkNetwork) -> int:
    near = {node: set[int]() for node in range(network.nodes)}
    for left, right in wires(network):
        near[left].add(right)
        near[right].add(left)
    longest = 0
    for start in near:
        reached, edge = {start}, {start}
        steps = -1
        while edge:
            steps += 1
            edge = {other for node in edge for other in near[node]} - reached
            reached |= edge
        longest = max(longest, steps)
    return longest


@pytest.mark.parametrize("edges", TORI)
def test_the_closed_bisection_of_a_torus_is_the_smallest_cut(edges: tuple[int, ...]) -> None:
    torus = LinkNetwork("torus", edges)

    assert torus.bisection_links in (None, smallest_cut(torus))
    assert torus.links == len(wires(torus))
    assert (torus.bisection_links is None) == (edges == (3, 2, 2))


@pytest.mark.parametrize("nodes", range(2, 15))
def test_a_tree_has_a_bisection_of_one_link_or_none(nodes: int) -> None:
    tree = LinkNetwork("tree", (nodes,))

    assert tree.bisection_links == (1 if smallest_cut(tree) == 1 else None)


@pytest.mark.parametrize(
    "network", [*(LinkNetwork("torus", each) for each in TORI), LinkNetwork("ring", (7,))], ids=str
)
def test_the_diameter_of_a_torus_is_its_longest_way(network: LinkNetwork) -> None:
    assert network.diameter == longest_way(network)


@pytest.mark.parametrize("nodes", range(1, 40))
def test_the_diameter_of_a_tree_is_its_longest_way(nodes: int) -> None:
    assert LinkNetwork("tree", (nodes,)).diameter == longest_way(LinkNetwork("tree", (nodes,)))


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("torus:4x4", 8),
        ("torus:6x3", 6),
        ("torus:5x4", 10),
        ("torus:3x3", 8),
        ("torus:5x3", 8),
        ("torus:7x2", 6),
        ("torus:4x2x2", 8),
        ("torus:3x5", 8),
        ("torus:16x16", 32),
        ("torus:9x1", 2),
        ("ring:9", 2),
        ("switch:64", 32),
        ("torus:1x1", 0),
    ],
)
def test_bisections_of_the_issue(text: str, links: int) -> None:
    assert network_of(text).bisection_links == links


def test_bisections_of_the_paper_in_bits_per_second() -> None:
    v2 = as_json(network_of("torus:16x16"), 62e9, 0, None)
    v3 = as_json(network_of("torus:32x32"), 1.35 * 62e9, 0, None)
    switch = as_json(network_of("switch:64"), 12.5e9, 0, None)

    assert 8 * v2["bisection_bytes_per_second"] == pytest.approx(15.872e12)
    assert round(8e-12 * v3["bisection_bytes_per_second"], 1) == 42.9
    assert 8 * switch["bisection_bytes_per_second_both_ways"] == pytest.approx(6.4e12)
    printed = v2["bisection_bytes_per_second"] / switch["bisection_bytes_per_second_both_ways"]
    assert round(printed, 1) == 2.5 and round(2 * printed, 2) == 4.96


@pytest.mark.parametrize(
    ("text", "link", "ring", "torus"), [("torus:16x16", 62e9, 1.642, 0.821), ("torus:32x32", 83.7e9, 1.220, 0.610)]
)
def test_all_reduces_of_the_issue(text: str, link: float, ring: float, torus: float) -> None:
    times = as_json(network_of(text), link, 0.0, GRADIENTS)["all_reduce_seconds"]

    assert round(1e3 * times["ring"], 3) == ring
    assert round(1e3 * times["torus"], 3) == torus
    assert times["torus"] == pytest.approx(times["bound_links"])


def test_the_link_bound_of_1024_nodes_explains_little_of_a_step() -> None:
    """Ying et al. (arXiv:1811.06992): 1.05 M images/s on 1024 chips at 77 % of linear, 32 images per chip."""
    together, alone = 1.05e6 / 1024, 1.05e6 / 1024 / 0.77
    added = 32 / together - 32 / alone
    bound = links_seconds(network_of("torus:32x32"), GRADIENTS, 83.7e9)

    assert (round(together), round(alone)) == (1025, 1332)
    assert (round(32e3 / alone, 1), round(32e3 / together, 1)) == (24.0, 31.2)
    assert round(1e3 * bound, 2) == 0.61 and bound / added < 0.1


networks = st.one_of(
    st.builds(lambda x, y: LinkNetwork("torus", (x, y)), st.integers(1, 40), st.integers(1, 40)),
    st.builds(lambda x, y, z: LinkNetwork("torus", (x, y, z)), *[st.integers(1, 12)] * 3),
    st.builds(
        lambda kind, n: LinkNetwork(kind, (n,)), st.sampled_from(["ring", "tree", "switch"]), st.integers(1, 900)
    ),
)
sizes, rates, latencies = st.floats(1, 1e12), st.floats(1e3, 1e12), st.floats(0, 1e-3)


def models(network: LinkNetwork, size: float, rate: float, alpha: float) -> list[float]:
    times = [each(network, size, rate, alpha) for each in (ring_seconds, torus_seconds, tree_seconds)]
    return [each for each in times if each is not None]


@given(networks, sizes, rates, latencies)
def test_no_model_is_faster_than_a_bound(network: LinkNetwork, size: float, rate: float, alpha: float) -> None:
    bounds = (links_seconds(network, size, rate), bisection_seconds(network, size, rate) or 0.0)

    assert min(models(network, size, rate, alpha)) >= max(bounds) * (1 - 1e-12)


@given(networks, sizes, rates, latencies, st.floats(1, 10))
def test_more_bandwidth_never_slows(network: LinkNetwork, size: float, rate: float, alpha: float, more: float) -> None:
    before, after = models(network, size, rate, alpha), models(network, size, rate * more, alpha)

    assert all(faster <= slower for faster, slower in zip(after, before, strict=True))


@given(st.integers(2, 30), st.integers(2, 30), sizes, rates)
def test_more_links_never_slow_an_all_reduce(x: int, y: int, size: float, rate: float) -> None:
    torus, ring, switch = LinkNetwork("torus", (x, y)), LinkNetwork("ring", (x * y,)), LinkNetwork("switch", (x * y,))
    times = [links_seconds(each, size, rate) for each in (torus, ring, switch)]

    assert times == sorted(times)
    assert ring_seconds(ring, size, rate, 0) <= ring_seconds(switch, size, rate, 0)
    in_torus, in_ring = torus_seconds(torus, size, rate, 0), torus_seconds(ring, size, rate, 0)
    assert in_torus is not None and in_ring is not None and in_torus <= in_ring * (1 + 1e-12)


@given(st.integers(1, 500), sizes, rates, latencies)
def test_a_torus_of_one_row_is_a_ring(nodes: int, size: float, rate: float, alpha: float) -> None:
    torus, ring = LinkNetwork("torus", (nodes, 1)), LinkNetwork("ring", (nodes,))

    assert as_json(torus, rate, alpha, size) == as_json(ring, rate, alpha, size)
    assert torus_seconds(torus, size, rate, alpha) == pytest.approx(ring_seconds(ring, size, rate, alpha))


@pytest.mark.parametrize("text", ["torus:15", "torus:4x4x4x4", "ring:4x4", "mesh:4x4", "torus:0x4", "ring:9999999", ""])
def test_other_forms_of_networks_are_refused(text: str) -> None:
    with pytest.raises(BadConfiguration, match=r"of a network|a network is"):
        network_of(text)
