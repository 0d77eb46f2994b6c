"""The first contact with an accelerator, on a machine without one: each step in small sizes, limits, stops and decisions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import first_contact
from tools.first_contact import DECISIONS, EXPECTED, LEAST_SECONDS, STEPS, STOPS

ROOT = Path(__file__).parents[2]
BARE_IMAGE = """
import sys
from importlib.machinery import PathFinder
KNOWN = set(
    "torch torchgen functorch numpy PIL sympy mpmath networkx jinja2 markupsafe filelock fsspec triton typing_extensions "
    "setuptools _distutils_hack msgspec simplejpeg safetensors psutil threadpoolctl packaging jaraco "
    "more_itertools yaml".split()
)
class BareImage:
    @staticmethod
    def find_spec(name, path=None, target=None):
        found = PathFinder.find_spec(name, path, target)
        if found is None or path is not None or name in KNOWN:
            return found
        places = [found.origin or "", *(found.submodule_search_locations or ())]
        return None if any("site-packages" in each and "_vendor" not in each for each in places) else found
    invalidate_caches = PathFinder.invalidate_caches
sys.meta_path[sys.meta_path.index(PathFinder)] = BareImage
"""
"""The finder of modules, without the packages that a bare image and the six wheels lack."""


def call(folder: Path, *words: str, bare: Path | None = None) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({} if bare is None else {"PYTHONPATH": str(bare)})
    command = [sys.executable, "-m", "tools.first_contact", str(folder), *words]
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.slow  # compiles for two minutes
def test_every_step_runs_in_small_on_a_bare_image(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BARE_IMAGE)

    said = call(tmp_path / "out", "--small", "--seconds", "3000", bare=tmp_path)

    assert "FAILED" not in said and "stopped:" not in said and "limit" not in said, said
    assert all(f"{step} finished" in said for step in STEPS), said
    for figure in ("eager", "regions", "compiled", "largest batch", "loop, synthetic", "loop, cpu", "overflow"):
        assert f"| {figure} | {EXPECTED[figure]} | " in said, figure
    assert "| rank gets SIGKILL | Crashed, and names the signal | Crashed" in said
    assert "| trial after | TrialDone | TrialDone |" in said


@pytest.mark.skipif(first_contact.here().type == "cuda", reason="an accelerator is here")
def test_no_step_follows_where_no_device_is(tmp_path: Path) -> None:
    said = call(tmp_path)

    assert "stopped: give the device back: there is none" in said
    assert [each.stem for each in tmp_path.glob("*.done")] == ["look"]


def test_a_finished_step_is_not_repeated(tmp_path: Path) -> None:
    for step in STEPS:
        (tmp_path / f"{step}.done").touch()
    (tmp_path / "rates.jsonl").write_text('["eager", 100.0, "as before"]\n')

    assert "| as before |" in call(tmp_path)


def test_a_step_that_hangs_or_raises_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = first_contact.run_step("look", tmp_path, 0.01, is_small=True)
    assert ended == "reached its limit of 0 s"
    assert f"| look | | {ended} |" in first_contact.table(tmp_path, {"look": ended})
    (tmp_path / "look.jsonl").write_text('["look", null, "FAILED RuntimeError: a | b"]\n')
    assert "FAILED RuntimeError: a / b |" in first_contact.table(tmp_path, {})


@pytest.mark.parametrize(
    ("figures", "ends", "stops"),
    [
        ({"device": 1.0, "matrix product": 7e14, "copy": 3e12}, ["look "], False),
        ({"device": 0.0}, ["look "], True),
        ({"device": 1.0, "matrix product": 5e14, "copy": 3e12}, ["look "], True),
        ({"device": 1.0, "matrix product": 7e14, "copy": 2e12}, ["look "], True),
        ({"device": 1.0}, ["look ", "rates "], True),
        ({"device": 1.0, "eager": 3000.0}, ["look ", "rates reached its limit of 150 s"], False),
        (
            {"device": 1.0, "eager": 3000.0},
            ["rates reached its limit of 150 s", "kernels reached its limit of 90 s"],
            True,
        ),
        ({"device": 1.0, "eager": 3000.0}, ["rates ended with status 1", "kernels ended with status 1"], False),
    ],
)
def test_a_call_stops_by_the_rules(figures: dict[str, float], ends: list[str], stops: bool) -> None:
    assert any(applies(figures, ends) for _, applies in STOPS) == stops


def test_figures_decide_at_their_limits() -> None:
    for rule in DECISIONS:
        by = {rule.by: 10.0} if rule.by else {}
        at = rule.least * (10.0 if rule.by else 1.0)
        assert rule.holds({rule.figure: at * 1.001} | by)
        assert not rule.holds({rule.figure: at * 0.999} | by)
        assert not rule.holds({rule.figure: at}) or not rule.by
        assert not rule.holds(by)
        assert rule.figure in EXPECTED and rule.by in (*EXPECTED, "")


def test_each_step_fits_into_a_call() -> None:
    assert all(LEAST_SECONDS < seconds <= 230 for seconds in STEPS.values())
    assert all(callable(getattr(first_contact, step)) for step in STEPS)
