"""Drawings: every node occurs once, below its inputs, and names are only text."""

from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from morphism import IMAGE_STARTS, Deepen, Graph, Op, Skip, apply, draw, start
from morphism.draw import svg, units
from tests.builders.graph import graphs

SVG = "{http://www.w3.org/2000/svg}"


@given(graphs())
@settings(deadline=None, max_examples=50)
def test_every_node_is_drawn_once_and_below_its_inputs(graph: Graph) -> None:
    boxes = units(graph)

    assert sorted(node for unit in boxes for node in unit.nodes) == list(range(len(graph.nodes)))
    assert all(source < row for row, unit in enumerate(boxes) for source in unit.inputs)
    assert svg(graph).count("<g>") == len(boxes)


@given(graphs())
@settings(deadline=None, max_examples=50)
def test_longer_edges_lie_farther_from_the_boxes(graph: Graph) -> None:
    page = ElementTree.fromstring(svg(graph))
    arcs = [path.get("d", "").split() for path in page.iter(f"{SVG}path") if " C " in path.get("d", "")]
    spans = sorted((int(arc[9]) - int(arc[2]), int(arc[4])) for arc in arcs)

    assert [control for _, control in spans] == sorted(control for _, control in spans)
    assert all(control < int(page.get("width", "0")) + 40 for _, control in spans)


def test_every_operation_can_be_drawn() -> None:
    assert set(draw._SHOWN) == set(get_args(Op))


@pytest.mark.parametrize("name", IMAGE_STARTS)
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
