"""Model of one worker with more accelerators: closed forms of each loss term, reproducibility, and the file that it writes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf.__main__ import main as command_line
from aiperf.errors import BadConfiguration
from aiperf.simulate.model.simulated_executor import speed_of_host
from aiperf.simulate.session import Opening, open_run
from aiperf.simulate.study.within_worker import LINES, ModelledSize, opening_of, strong, weak
from cluster.simulated import SimulatedConf
from cluster.topology import LinkConf
from morphism import cost_of
from tests.simulate.test_session import as_if_real, configured, journal

PERFECT = LinkConf(0, 0.0, 1e18)
SIZES = [2**n for n in range(13)]
NO_LOSS: dict[str, Any] = {
    "workers": 1,
    "accelerators": 4096,
    "step_seconds": 0.0,
    "speed_spread": 0.0,
    "links": [PERFECT],
    "overlap": 1.0,
    "input_share": 0.0,
}
"""Every term that loses points is 0. The exchange over the perfect link hides behind the backward pass."""


def opened(**changes: Any) -> Opening:
    return open_run(configured(**{**NO_LOSS, **changes}))


def figures(opening: Opening) -> tuple[float, int, int]:
    """Return compute seconds of an image, bytes of the gradients and the batch."""
    of = cost_of(opening.plan.network)
    return of.training_flops / opening.conf.flops, 4 * of.parameters, opening.plan.space.default_batch_size


def by_size(sizes: tuple[ModelledSize, ...]) -> dict[int, ModelledSize]:
    return {each.accelerators: each for each in sizes}


def test_without_loss_terms_every_size_is_exactly_linear() -> None:
    began = time.process_time()
    opening = opened()

    for sizes in (weak(opening), strong(opening)):
        assert {each.efficiency for each in sizes} == {1.0}
        assert all(
            each.points_lost[line] == 0 for each in sizes for line in LINES if line not in ("exchange", "overlap")
        )
    assert [each.accelerators for each in weak(opening)] == SIZES
    assert time.process_time() - began < 60


def test_the_exchange_alone_has_its_closed_form() -> None:
    opening = opened(links=[LinkConf(0, 1e-5, 1e9)], overlap=0.0)
    image, size, batch = figures(opening)

    for each in weak(opening):
        n = each.accelerators
        exchange = 2 * (n - 1) * (1e-5 + size / n / 1e9)
        assert each.efficiency == pytest.approx(batch * image / (batch * image + exchange))
        assert each.points_lost["exchange"] == pytest.approx(100 * (1 - each.efficiency_with_evaluation), abs=0.5)


def test_the_overlap_hides_its_share_of_the_backward_pass() -> None:
    opening = opened(links=[LinkConf(0, 0.0, 1e8)], overlap=0.5)
    image, size, batch = figures(opening)

    each = by_size(weak(opening))[64]
    hidden = min(2 * 63 / 64 * size / 1e8, 0.5 * 2 / 3 * batch * image)

    assert each.seconds_per_image["overlap"] == pytest.approx(-hidden / batch)
    assert each.efficiency == pytest.approx(batch * image / (batch * image + 2 * 63 / 64 * size / 1e8 - hidden))


def test_stragglers_alone_slow_all_to_the_slowest_host() -> None:
    opening = opened(speed_spread=0.05, links=[LinkConf(8, 0.0, 1e18), PERFECT])

    for each in weak(opening):
        speeds = [speed_of_host(opening.plan.conf.seed, host, 0.05) for host in range(max(1, each.accelerators // 8))]
        assert each.efficiency == pytest.approx(min(speeds) / speeds[0])


def test_input_alone_loses_nothing_of_linear() -> None:
    """The model's input is a share of each step, which is equal at all sizes."""
    assert {each.efficiency for each in weak(opened(input_share=0.25))} == {1.0}


def test_a_constant_time_of_a_step_limits_strong_scaling_alone() -> None:
    opening = opened(step_seconds=0.01)
    image, _, batch = figures(opening)

    assert {each.efficiency for each in weak(opening)} == {1.0}
    for each in strong(opening):
        n = each.accelerators
        assert each.batch == batch / n
        assert each.efficiency == pytest.approx((batch * image + 0.01) / n / (batch * image / n + 0.01))


def test_evaluation_is_in_one_of_the_two_figures() -> None:
    sizes = weak(opened(step_seconds=0.01))

    assert {each.efficiency for each in sizes} == {1.0}
    assert sizes[-1].efficiency_with_evaluation < 1.0 and sizes[-1].points_lost["evaluation"] > 0


@pytest.mark.parametrize("changes", [{}, {"speed_spread": 0.1, "overlap": 0.3, "links": [LinkConf(0, 1e-5, 1e9)]}])
def test_lines_add_up_to_the_lost_points(changes: dict[str, Any]) -> None:
    for each in weak(opened(**changes)):
        assert sum(each.points_lost.values()) == pytest.approx(100 * (1 - each.efficiency_with_evaluation), abs=1e-9)


def test_a_torus_is_halved_along_its_longest_edge() -> None:
    torus = {"accelerators": 64, "topology": "torus", "shape": [8, 8], "links": [LinkConf(0, 0.0, 62e9)]}

    assert [each.accelerators for each in weak(opened(**torus))] == [1, 2, 4, 8, 16, 32, 64]
    odd = torus | {"accelerators": 18, "shape": [6, 3]}
    assert [each.accelerators for each in weak(opened(**odd))] == [1, 9, 18]


def test_equal_seeds_write_equal_files_for_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rehearse", "--within-worker", "cluster.accelerators=16", f"runs={tmp_path}"]

    for name in ("a", "b"):
        assert command_line([*words, f"name={name}"]) == 0
    assert command_line([*words, "name=c", "seed=1"]) == 0
    first, second, other = ((tmp_path / name / "within-worker.json").read_bytes() for name in "abc")

    assert first == second != other
    assert [each["accelerators"] for each in json.loads(first)["weak"]] == [1, 2, 4, 8, 16]
    assert "never ranked" in capsys.readouterr().out


def test_a_profile_gives_costs_and_keeps_the_network(tmp_path: Path) -> None:
    known = journal(configured(workers=2, hours=0.5), tmp_path / "journal.jsonl")
    run = as_if_real(known, tmp_path / "real")
    conf = configured(workers=1)
    own = SimulatedConf(workers=1, accelerators=64, profile=str(run))

    opening = opening_of(replace(conf, cluster=own))

    assert opening.conf.accelerators == 64 and len(opening.conf.step_costs) == 5
    assert len(weak(opening)) == 7
    torus = replace(own, topology="torus", shape=[8, 8], links=[PERFECT])
    assert opening_of(replace(conf, cluster=torus)).conf.shape == [8, 8]
    with pytest.raises(BadConfiguration, match="product 64"):
        opening_of(replace(conf, cluster=replace(torus, shape=[4, 4])))


def test_a_contradicting_network_is_refused_before_the_study() -> None:
    with pytest.raises(BadConfiguration, match="product 4096"):
        opened(topology="torus", shape=[2, 2])
