"""Graph files: what is written is read back, and what is damaged or hostile is refused quickly."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morphism import IMAGE_STARTS, JSON, DamagedGraphFile, Graph, Op, decode, encode, load, rebuild, start
from morphism.codec import _OPS, LARGEST_FILE
from morphism.graph import LARGEST_GRAPH
from tests.builders.graph import graphs, grown

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[2] / "docs" / "graph-format.md"


def test_every_operation_has_a_name_that_the_format_page_lists() -> None:
    assert set(_OPS.values()) == set(Op.__args__)
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE) == list(_OPS)


@given(graphs())
@settings(deadline=None)
def test_decode_inverts_encode(graph: Graph) -> None:
    assert decode(encode(graph)) == graph


@given(st.sampled_from(IMAGE_STARTS).map(start).flatmap(lambda graph: grown(graph, most_morphs=4)).map(rebuild))
@settings(deadline=None, max_examples=10)
def test_grown_starts_are_read_back(graph: Graph) -> None:
    assert decode(encode(graph)) == graph


# The file was written by the first version and is never to be changed, nor is this test:
# a later version gets another golden file, and reads this one as the same graph.
def test_version_1_is_read_for_ever() -> None:
    graph = load(GOLDEN / "graph-v1.json")

    assert graph.fingerprint == "c9f8702fca70e103d36cd5e948860f47"
    assert len(graph.nodes) == 14
    assert decode(encode(graph)) == graph


def test_encode_writes_version_1() -> None:
    text = (GOLDEN / "graph-v1.json").read_text(encoding="utf-8")

    assert encode(decode(text)) == text


def test_a_handwritten_file_may_omit_defaults() -> None:
    text = """
    {"format": "morphism-graph", "version": 1, "nodes": [
        {"name": "image", "op": "input", "channels": 3, "height": 8, "width": 8},
        {"name": "conv", "op": "convolution", "out_channels": 4, "kernel": 3, "inputs": ["image"]},
        {"name": "drop", "op": "dropout", "probability": 0, "inputs": ["conv"]},
        {"name": "pool", "op": "global_average_pooling", "inputs": ["drop"]},
        {"name": "dense", "op": "dense", "out_features": 2, "inputs": ["pool"]},
        {"name": "softmax", "op": "softmax", "inputs": ["dense"]}
    ]}"""

    assert decode(decode_encode := encode(decode(text))) == decode(text)
    assert '"stride": 1' in decode_encode


def document() -> dict[str, JSON]:
    found: dict[str, JSON] = json.loads(encode(start("digits_small")))
    return found


def changed(change: Callable[[dict[str, JSON], Any], object]) -> str:
    found = document()
    nodes = found["nodes"]
    assert isinstance(nodes, list)
    change(found, nodes)
    return json.dumps(found)


DAMAGED: dict[str, tuple[str, str]] = {
    "10,000 deep lists": ("[" * 10_000, "at most four levels"),
    "10,000 deep objects": ('{"nodes":' * 10_000, "at most four levels"),
    "deep, in place of a number": (
        encode(start("digits_small")).replace('"kernel": 3', f'"kernel": {"[" * 500}{"]" * 500}', 1),
        "kernel must be a number of at most 2^63. This one is a list of 1",
    ),
    "deep, in place of everything": (f"{'[' * 500}{']' * 500}", "This one is a list of 1"),
    "huge": (" " * (LARGEST_FILE + 1), f"{LARGEST_FILE} characters at most"),
    "a number that no float holds": (
        encode(start("digits_small")).replace('"kernel": 3', f'"kernel": {10**400}', 1),
        "kernel must be a number of at most 2^63",
    ),
    "a huge number": ('{"version": ' + "9" * 1_000_000 + "}", "no JSON"),
    "too many nodes": (
        changed(lambda _, nodes: nodes.extend([{}] * LARGEST_GRAPH)),
        "10000 nodes. This file has a list of",
    ),
    "not JSON": ("graph", "no JSON"),
    "nothing": ("", "no JSON"),
    "cut short": (encode(start("digits_small"))[:-40], "no JSON"),
    "another format": ('{"format": "onnx", "version": 1}', "This one is an object of 2 fields"),
    "the future": (changed(lambda found, _: found.update(version=2)), "versions up to 1. This file has version 2"),
    "a version that is true": (changed(lambda found, _: found.update(version=True)), "has True"),
    "NaN": (
        changed(lambda _, nodes: nodes[1].update(kernel=float("nan"))),
        "an integer from 1 to 255. This one is nan",
    ),
    "infinity": (
        changed(lambda _, nodes: nodes[1].update(kernel=float("inf"))),
        "kernel must be a number of at most 2^63. This one is inf",
    ),
    "a float": (changed(lambda _, nodes: nodes[1].update(kernel=3.0)), "an integer from 1 to 255. This one is 3.0"),
    "a bool": (changed(lambda _, nodes: nodes[1].update(groups=True)), "an integer from 1 to 65536. This one is True"),
    "an absurd size": (changed(lambda _, nodes: nodes[0].update(height=10**9)), "from 1 to 16384"),
    "an unknown operation": (changed(lambda _, nodes: nodes[1].update(op="unheard")), "This one is 'unheard'"),
    "an operation that is code": (
        changed(lambda _, nodes: nodes[1].update(op="__import__('os')")),
        "op must be one of",
    ),
    "an unknown field": (changed(lambda _, nodes: nodes[1].update(dilation=2)), "'dilation' is none of them"),
    "an unknown field of the file": (changed(lambda found, _: found.update(weights=[])), "'weights' is none of them"),
    "a missing field": (changed(lambda _, nodes: nodes[1].pop("kernel")), "a convolution must have a kernel. Add it"),
    "a cycle": (
        changed(lambda _, nodes: nodes[1].update(inputs=["stem.relu"])),
        "No earlier node is named 'stem.relu'",
    ),
    "a node that reads itself": (
        changed(lambda _, nodes: nodes[1].update(inputs=["stem.conv"])),
        "must name earlier nodes",
    ),
    "an input that is a number": (changed(lambda _, nodes: nodes[1].update(inputs=[0])), "No earlier node is named 0"),
    "inputs that are a word": (
        changed(lambda _, nodes: nodes[1].update(inputs="image")),
        "inputs must be a list of names",
    ),
    "a name twice": (changed(lambda _, nodes: nodes[2].update(name="stem.conv")), "have the name 'stem.conv'"),
    "a name that is none": (
        changed(lambda _, nodes: nodes[1].update(name="../weights")),
        "a name consists of segments of",
    ),
    "a name of a megabyte": (
        changed(lambda _, nodes: nodes[1].update(name="a" * 1_000_000)),
        "a name consists of segments of",
    ),
    "a node that is a list": (changed(lambda _, nodes: nodes.__setitem__(1, [])), "a node must be an object"),
    "no nodes": (changed(lambda found, _: found.pop("nodes")), "nodes must be a list"),
    "an illegal graph": (changed(lambda _, nodes: nodes.pop()), "the last node must be the Softmax"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_or_hostile_text_is_refused(case: str) -> None:
    text, offence = DAMAGED[case]

    with pytest.raises(DamagedGraphFile) as raised:
        decode(text)

    assert offence in str(raised.value)
    assert len(str(raised.value)) < 600


def test_channels_joined_repeatedly_are_refused_early() -> None:
    def doubling(_: object, nodes: list[dict[str, JSON]]) -> None:
        last: JSON = "stem.relu"
        for number in range(5_000):
            nodes.insert(4 + number, {"name": f"double{number}", "op": "concat", "inputs": [last, last]})
            last = f"double{number}"

    with pytest.raises(DamagedGraphFile, match="maps have at most 65536 channels"):
        decode(changed(doubling))


@given(st.data())
@settings(deadline=None)
def test_no_damage_gets_past_with_another_error(data: st.DataObject) -> None:
    text = encode(start("digits_small", classes=3))
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 40)))
    damaged = text[:begin] + data.draw(st.text(max_size=8)) + text[end:]

    try:
        graph = decode(damaged)
    except DamagedGraphFile:
        return
    assert decode(encode(graph)) == graph


def test_a_file_is_read_and_its_errors_name_it(tmp_path: Path) -> None:
    good, bad, large, binary = (tmp_path / name for name in ("good.json", "bad.json", "large.json", "binary.json"))
    good.write_text(encode(start("digits_small")), encoding="utf-8")
    bad.write_text("{}", encoding="utf-8")
    large.write_bytes(b" " * (LARGEST_FILE + 1))
    binary.write_bytes(b"\xff\xfe\x00")

    assert load(good) == load(str(good)) == start("digits_small")
    for path in (bad, large, binary):
        with pytest.raises(DamagedGraphFile, match=path.name):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.json")


def test_the_largest_graph_fits_a_file() -> None:
    longest_line = (
        '{"name": "", "op": "convolution", "out_channels": 65536, "kernel": 255, "stride": 255, "padding": 255,'
    )

    # with names of the usual forty characters, its own and that of what it reads
    assert LARGEST_GRAPH * (len(longest_line) + 50 + 2 * 40) < LARGEST_FILE
