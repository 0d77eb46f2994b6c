"""`python -m aiperf flops`: the table that a reader holds against the paper, and the contract of --json."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from morphism import (
    IMAGE_STARTS,
    Concat,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Graph,
    Input,
    Node,
    Softmax,
    encode,
)
from tests.rigs.user import User

KINDS = (
    "convolution",
    "dense",
    "batch_normalisation",
    "relu",
    "add",
    "concat",
    "max_pooling",
    "average_pooling",
    "dropout",
    "softmax",
    "embedding",
    "rms_norm",
    "attention",
    "gated_mlp",
)


@pytest.mark.parametrize("name", IMAGE_STARTS)
def test_json_names_every_kind_and_adds_up(aiperf: User, name: str) -> None:
    answer = aiperf("flops", name, "--json")

    counted = json.loads(answer.out)
    assert answer.status == 0
    assert tuple(counted["layers"]) == KINDS
    for direction in ("forward_flops", "backward_flops"):
        assert sum(layer[direction] for layer in counted["layers"].values()) == counted["total"][direction]
        assert type(counted["total"][direction]) is int
    assert 0 < counted["tensor"]["forward_flops"] < counted["total"]["forward_flops"]
    assert 0 < counted["tensor"]["backward_flops"] < counted["total"]["backward_flops"]
    assert counted["parameters"] > 0


def test_json_counts_kinds_that_no_starting_graph_has(aiperf: User, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(encode(_with_concat_and_dropout()))

    counted = json.loads(aiperf("flops", "odd.json", "--json").out)

    assert counted["layers"]["dropout"] == {"forward_flops": 2 * 4 * 8 * 8, "backward_flops": 0}
    assert counted["layers"]["concat"] == {"forward_flops": 0, "backward_flops": 0}
    validated = counted["total"]["forward_flops"] - 2 * 4 * 8 * 8
    assert counted["total"]["forward_validation_flops"] == validated


def test_the_table_shows_table_iii_and_table_vii(aiperf: User) -> None:
    shown = aiperf("flops", "resnet50_v1").out

    rows = {line[:24].strip(): line[24:].split() for line in shown.splitlines()}
    assert rows["convolution"] == ["7.7119e+09", "1.5235e+10", "1.9755", "2.2946e+10"]
    assert rows["dense"] == ["4.0960e+06", "1.2290e+07", "3.0005", "1.6386e+07"]
    assert rows["batch normalisation"][:2] == ["7.4110e+07", "1.9080e+03"]
    assert rows["total"] == ["7.8066e+09", "1.5247e+10", "1.9531", "2.3053e+10"]
    assert "1.0002e+16 forward + 1.9534e+16 backward (1\u202f281\u202f167 training images)" in shown
    assert "3.9033e+14 (50\u202f000 validation images) = 2.9926e+16" in shown


def test_v1_5_has_its_published_cost(aiperf: User) -> None:
    counted = json.loads(aiperf("flops", "resnet50_v1_5", "--json").out)

    assert f"{counted['total']['forward_flops'] + counted['total']['backward_flops']:.4e}" == "2.4445e+10"


def test_an_array_adds_its_share_and_five_layers(aiperf: User) -> None:
    plain = json.loads(aiperf("flops", "resnet50_v1_5", "--json").out)
    counted = json.loads(aiperf("flops", "resnet50_v1_5", "--array", "128", "--json").out)
    shown = aiperf("flops", "resnet50_v1_5", "--array", "128").out

    assert {name: value for name, value in counted.items() if not name.startswith("array")} == plain
    assert round(100 * counted["array_share"], 2) == 79.36 and counted["array"] == 128
    unused = [each["occupied_flops"] - each["flops"] for each in counted["array_waste"]]
    assert len(unused) == 5 and unused == sorted(unused, reverse=True)
    assert "array of 128 × 128: 79.36 % of it filled" in shown
    assert counted["array_waste"][0]["layer"] in shown


def test_the_heading_fits_into_80_columns(aiperf: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    shown = aiperf("flops", "resnet50_v1").out

    assert "…" not in shown
    assert re.search(r"layer +forward +backward +ratio +total", shown)


def test_sizes_of_image_and_classes_are_the_users(aiperf: User) -> None:
    own = json.loads(aiperf("flops", "resnet50_v1", "--image", "32", "--classes", "10", "--json").out)
    usual = json.loads(aiperf("flops", "resnet50_v1", "--json").out)

    assert own["parameters"] == usual["parameters"] - 990 * 2049
    assert own["layers"]["dense"]["forward_flops"] == 2 * 2048 * 10


def test_a_misspelt_network_is_refused_with_the_nearest(aiperf: User) -> None:
    answer = aiperf("flops", "resnet2")

    assert answer.status == 2
    assert "no starting graph is called 'resnet2'" in answer.err
    assert "did you mean 'resnet20'?" in answer.err


def test_a_file_that_is_no_graph_is_refused_without_a_traceback(aiperf: User, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"format": "morphism-graph", "version": 99, "nodes": []}')

    answer = aiperf("flops", "broken.json")

    assert answer.status == 2
    assert answer.err.startswith("aiperf: ")
    assert "99" in answer.err


def test_detector_is_counted_per_image_and_per_region(aiperf: User) -> None:
    usual = json.loads(aiperf("flops", "faster_rcnn_r50", "--json").out)
    same = json.loads(aiperf("flops", "faster_rcnn_r50", "--height", "768", "--width", "1152", "--json").out)
    tall = json.loads(aiperf("flops", "faster_rcnn_r50", "--height", "1536", "--json").out)

    assert usual == same and usual["per_region"] == tall["per_region"]
    assert (usual["tensor"]["forward_flops"], usual["per_region"]["forward_flops"]) == (349_845_295_104, 27_838_464)
    for direction in ("forward_flops", "backward_flops"):
        whole = usual["tensor"][direction] + usual["regions"] * usual["per_region"][direction]
        assert usual["with_regions"][direction] == whole
        assert tall["tensor"][direction] == 2 * usual["tensor"][direction]


def test_detector_table_separates_the_papers_figure(aiperf: User) -> None:
    shown = aiperf("flops", "faster_rcnn_r50").out

    assert re.search(r"image with 512 regions +3\.6410e\+11 +7\.0600e\+11 +1\.9390 +1\.0701e\+12", shown)
    assert "41\u202f408\u202f424 in 189 tensors" in shown
    assert "691 GFLOP per image for training. They belong to another network" in shown


def test_measured_holds_the_count_to_those_of_others(
    aiperf: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A perf in place of the real one: it executes nothing, and counts 1000 operations a step after a start of 50."""
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\nfor last; do :; done\nprintf '%s;;e;1;100\\n' $((50 + 1000 * last)) > $7\n")
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("aiperf.bops.instructions.events", lambda: {"floating_point": {"e": 2}})

    answer = aiperf("flops", "resnet20", "--measured", "--json")

    found = json.loads(answer.out)
    assert found["measured"]["torch"] == found["tensor"]
    assert (found["measured"]["hardware_flops"], found["measured"]["not_measured"]) == (1000, "")
    monkeypatch.setattr("aiperf.bops.instructions.events", lambda: {"floating_point": {}})
    printed = aiperf("flops", "resnet20", "--measured").out
    assert "1.0000 × tensor only" in printed and "counters: not measured: events.json lists no" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("faster_rcnn_r50", "--measured"), "--measured cannot be combined with faster_rcnn_r50"),
        (
            ("faster_rcnn_r50", "--width", "100"),
            "width of a detector's image is a multiple of 32, at most 16384, but found 100: use 96",
        ),
        (("faster_rcnn_r50", "--image", "64"), "--image cannot be combined with faster_rcnn_r50"),
        (("resnet20", "--height", "64"), "--height cannot be combined with resnet20"),
    ],
)
def test_sizes_of_the_other_kind_are_refused(aiperf: User, words: tuple[str, ...], message: str) -> None:
    answer = aiperf("flops", *words)

    assert answer.status == 2
    assert message in " ".join(answer.err.split())


def _with_concat_and_dropout() -> Graph:
    return Graph(
        (
            Node("image", Input(3, 8, 8)),
            Node("left", Convolution(2, 3, 1, 1), (0,)),
            Node("right", Convolution(2, 1, 1, 0), (0,)),
            Node("both", Concat(), (1, 2)),
            Node("drop", Dropout(0.5), (3,)),
            Node("pool", GlobalAveragePooling(), (4,)),
            Node("dense", Dense(10), (5,)),
            Node("softmax", Softmax(), (6,)),
        )
    )


def test_a_language_model_is_counted_per_sequence_beside_6nt(aiperf: User) -> None:
    shown = aiperf("flops", "llama_162m").out

    assert "llama_162m: operations per sequence" in shown and "an epoch of ImageNet" not in shown
    assert f"{6 * 162_148_608 * 1024:.4e}" in shown and "embedding" in shown and "gated mlp" in shown
