"""Drawings: every node occurs once, nothing overlaps, and names are only text."""

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from morphism import STARTS, Deepen, Graph, Skip, apply, start
from morphism.draw import layout, svg
from tests.builders.graph import graphs

SVG = "{http://www.w3.org/2000/svg}"


@given(graphs())
@settings(deadline=None, max_examples=50)
def test_every_node_is_drawn_once_without_overlap(graph: Graph) -> None:
    placed = layout(graph)

    assert sorted(node for unit in placed.units for node in unit.nodes) == list(range(len(graph.nodes)))
    assert len({(unit.layer, unit.lane) for unit in placed.units}) == len(placed.units)


@given(graphs())
@settings(deadline=None, max_examples=50)
def test_every_edge_leads_down(graph: Graph) -> None:
    placed = layout(graph)

    for unit in placed.units:
        assert all(placed.units[source].layer < unit.layer for source in unit.inputs)


@given(graphs())
@settings(deadline=None, max_examples=50)
def test_edges_around_the_network_do_not_overlap(graph: Graph) -> None:
    placed = layout(graph)
    spans = [(edge.track, placed.units[edge.source].layer, placed.units[edge.target].layer) for edge in placed.tracks]

    for number, (track, begin, end) in enumerate(spans):
        for other, other_begin, other_end in spans[:number]:
            assert track != other or end <= other_begin or other_end <= begin


@pytest.mark.parametrize("name", STARTS)
def test_drawings_are_valid_and_show_kernel_channels_and_maps(name: str) -> None:
    graph = start(name)

    page = ElementTree.fromstring(svg(graph, title=name))

    texts = [element.text for element in page.iter(f"{SVG}text")]
    assert name in texts
    assert any(text and text.startswith("conv 3×3") for text in texts)
    assert {str(shape) for shape in (graph.shapes[0], graph.shapes[-1])} <= set(texts)


def test_layers_added_by_morphs_are_highlighted() -> None:
    grown, _ = apply(start("digits_small"), Deepen("stem.relu"))
    grown, _ = apply(grown, Skip("stem.relu", "stage1.block1.norm1"))
    new = {node.name for node in grown.nodes} - {node.name for node in start("digits_small").nodes}

    page = ElementTree.fromstring(svg(grown, title="grown", highlight=new))

    boxes = [box for box in page.iter(f"{SVG}rect") if "unit" in box.get("class", "")]
    assert sum("new" in box.get("class", "") for box in boxes) == 3  # the deepening, the branch, its sum
    assert "new" not in svg(start("digits_small")).replace("new-", "").split("</style>")[1]


def test_a_title_is_text_and_no_markup() -> None:
    page = ElementTree.fromstring(svg(start("digits_small"), title="<script>alert('&')</script>"))

    assert not list(page.iter(f"{SVG}script"))
