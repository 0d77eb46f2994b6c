"""`python -m aiperf morph`: growing a network by hand, and what comes out of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from morphism import apply, cost, decode, decode_morph, load
from tests.rigs.user import User


def test_the_same_seed_grows_the_same_network(aiperf: User, tmp_path: Path) -> None:
    first = aiperf("morph", "resnet20", "--steps", "5", "--seed", "3", "--out", "first.json")
    again = aiperf("morph", "resnet20", "--steps", "5", "--seed", "3", "--out", "again.json")
    other = aiperf("morph", "resnet20", "--steps", "5", "--seed", "4", "--out", "other.json")

    assert (first.status, again.status, other.status) == (0, 0, 0)
    assert (tmp_path / "first.json").read_text() == (tmp_path / "again.json").read_text()
    assert load(tmp_path / "first.json").fingerprint != load(tmp_path / "other.json").fingerprint


def test_each_step_is_shown_with_its_cost(aiperf: User) -> None:
    shown = aiperf("morph", "resnet20", "--steps", "3").out

    steps = [line.split()[0] for line in shown.splitlines() if line.strip()[:1].isdigit()]
    assert steps == ["0", "1", "2", "3"]
    assert "…" not in shown


def test_the_grown_network_stays_within_the_budget(aiperf: User, tmp_path: Path) -> None:
    aiperf(
        "morph", "digits_small", "--steps", "60", "--factor", "1.5", "--out", "grown.json", "--lineage", "lineage.json"
    )

    lineage = json.loads((tmp_path / "lineage.json").read_text())
    start, grown = cost(decode(json.dumps(lineage["start"]))), cost(load(tmp_path / "grown.json"))
    assert start.forward_flops < grown.forward_flops <= 1.5 * start.forward_flops
    assert grown.parameters <= 1.5 * start.parameters


def test_flops_reads_the_grown_network_back(aiperf: User, tmp_path: Path) -> None:
    aiperf("morph", "resnet20", "--steps", "4", "--out", "grown.json")

    counted = json.loads(aiperf("flops", "grown.json", "--json").out)

    grown = cost(load(tmp_path / "grown.json"))
    assert counted["total"]["forward_flops"] == grown.forward_flops
    assert counted["total"]["backward_flops"] == grown.backward_flops
    assert counted["parameters"] == grown.parameters


def test_the_lineage_rebuilds_the_network_exactly(aiperf: User, tmp_path: Path) -> None:
    aiperf("morph", "resnet20", "--steps", "6", "--seed", "1", "--out", "grown.json", "--lineage", "lineage.json")

    lineage = json.loads((tmp_path / "lineage.json").read_text())
    graph = decode(json.dumps(lineage["start"]))
    for morph in lineage["morphs"]:
        graph, _ = apply(graph, decode_morph(morph))
    assert len(lineage["morphs"]) == 6
    assert graph == load(tmp_path / "grown.json")


def test_the_drawing_is_an_svg_with_the_new_layers(aiperf: User, tmp_path: Path) -> None:
    aiperf("morph", "resnet20", "--steps", "4", "--draw", "grown.svg")

    root = ElementTree.parse(tmp_path / "grown.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "resnet20 + 4 morphs" in text


def test_an_unwritable_path_gives_no_traceback(aiperf: User) -> None:
    answer = aiperf("morph", "resnet20", "--steps", "1", "--out", "nowhere/grown.json")

    assert answer.status == 2
    assert "'nowhere/grown.json' cannot be written (No such file or directory)" in answer.err
