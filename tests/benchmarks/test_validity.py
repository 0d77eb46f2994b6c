"""Benchmarks of what the score speaks for find planted rates and effects. The modelled rates are within the roofs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import validity
from benchmarks.ablations import row
from benchmarks.modelled_validity import kernel_lines, rate, with_kernels
from benchmarks.validity import FEWEST_CORRELATED, Times, joined, measured, recorded, tables
from morphism import Graph
from morphism.ops import Convolution
from morphism.sites import kernel_sites, useful_kernels
from tests.builders.graph import graphs
from tests.builders.run import folder_of

NOISE = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0]


def planted(rates: dict[str, list[float]]) -> Times:
    """Times of networks whose rates in setting 0, 1, … are planted. Wall times are twice as long."""
    return {
        network: {f"s{n}": [(noise / one, 2 * noise / one) for noise in NOISE] for n, one in enumerate(of)}
        for network, of in rates.items()
    }


def test_planted_rates_and_a_turned_order_are_found() -> None:
    lines = list(tables(planted({"run": [1.0, 2.0], "resnet50": [1.0, 0.5], "lstm": [1.0, 1.0]})))

    assert "| run | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) |" in lines
    assert "| resnet50 | 0.50 (0.50–0.50) | 0.50 (0.50–0.50) |" in lines
    assert lines[-1] == "\norder turns round between: run and resnet50"


def test_equal_orders_do_not_turn_and_five_settings_are_correlated() -> None:
    rates = [1.0, 1.5, 2.0, 3.0, 4.0]
    few, many = (
        list(tables(planted({"run": rates[:count], "same": rates[:count], "against": rates[:count][::-1]})))
        for count in (FEWEST_CORRELATED - 1, FEWEST_CORRELATED)
    )

    assert not any("rank correlation" in line for line in few)
    assert many[-1] == "\nrank correlation with the run: run 1.00, same 1.00, against -1.00"
    assert not any("run and same" in line for line in many)


def test_files_of_other_machines_join_with_their_common_networks() -> None:
    own = {"machine": "a", "rounds": 6, "times": planted({"run": [1.0], "resnet50": [1.0]})}
    other = {"machine": "b", "rounds": 3, "times": planted({"run": [2.0]})}

    times = joined([own, json.loads(json.dumps(other))])

    assert list(times) == ["run"] and list(times["run"]) == ["a: s0", "b: s0"]
    assert [len(rounds) for rounds in times["run"].values()] == [3, 3]
    assert joined([own]) == own["times"]


def test_networks_of_a_run_are_measured_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = recorded(folder_of(tmp_path, "run"))[:2]
    file = tmp_path / "networks.json"
    file.write_text(json.dumps({"networks": networks}))
    monkeypatch.setattr(validity, "OTHERS", {})
    monkeypatch.setattr(validity, "SEGMENT_SECONDS", 0.01)

    times = measured(["avx2"], networks, 2)

    assert recorded(file) == networks and networks[1][2] > 0
    assert list(times) == ["run", "start", "trial 1"]
    weights = [images / batch for _, batch, images in networks]
    for turn in (0, 1):
        parts = [times[name]["avx2"][turn] for name in ("start", "trial 1")]
        assert all(value > 0 for part in parts for value in part)
        whole = [sum(weight * part[clock] for weight, part in zip(weights, parts, strict=True)) for clock in (0, 1)]
        assert times["run"]["avx2"][turn] == pytest.approx(whole)


@settings(max_examples=20, deadline=None)
@given(graphs(), st.floats(0.1, 10))
def test_the_other_machine_is_at_most_twice_and_at_least_half_as_fast(graph: Graph, intensity: float) -> None:
    peak, bandwidth = 1e15, 1e15 / (100 * intensity)

    ratio = rate([(graph, 32, 1.0)], (peak / 2, 2 * bandwidth)) / rate([(graph, 32, 1.0)], (peak, bandwidth))

    assert 0.5 <= ratio <= 2.0
    assert rate([(graph, 32, 1.0)], (peak, 1e30)) == pytest.approx(peak)


@settings(max_examples=20, deadline=None)
@given(graphs(), st.sampled_from([5, 7]))
def test_kernels_grow_where_the_search_may_enlarge_them(graph: Graph, kernel: int) -> None:
    grown = with_kernels(graph, kernel)

    for index, (before, after) in enumerate(zip(graph.nodes, grown.nodes, strict=True)):
        if index in kernel_sites(graph) and kernel in useful_kernels(graph, index):
            assert isinstance(after.op, Convolution) and after.op.kernel == kernel
        else:
            assert after.op == before.op
    assert grown.shapes == graph.shapes


def test_padding_of_larger_kernels_is_that_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "validity.md").read_text()
    resnet50, digits = (line.split("|")[2:] for line in list(kernel_lines())[-2:])

    for cells in (resnet50, digits):
        assert f"|{'|'.join(cells)}" in page


def test_a_planted_effect_of_a_part_is_in_its_row() -> None:
    pairs = [
        [
            {"error": 0.1 * noise, "score": 1e9 * noise, "regulated": 2e9},
            {"error": 0.12 * noise, "score": 9e8, "regulated": 2e9},
        ]
        for noise in NOISE
    ]

    cells = row("inheritance", pairs).split(" | ")

    assert cells[:2] == ["| inheritance", "1.200 (1.200–1.200)"]
    assert cells[2].startswith("0.900 (") and cells[3] == "1.000 (1.000–1.000)"
    assert cells[4].startswith("0.000 (0.000–0.000)")
