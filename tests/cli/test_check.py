"""`python -m aiperf check`: output for people, programs and CI systems, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from aiperf.config import configure
from aiperf.data.description import DataSet
from aiperf.journal.events import RunEnded, WorkerShape
from aiperf.planning.plan import first_event, make_plan
from aiperf.ranking.division import division
from tests.rigs.user import User, write_run

SHAPE = WorkerShape(source="a test", device="a processor", accelerators=0, ranks=2, cores=2, memory_bytes=4 << 30)
OURS = {
    "division": "ours",
    "title": "runs that ended",
    "chosen": {},
    "rules": [
        {
            "id": "length",
            "text": "the declared length is run to its end",
            "source": ["decided"],
            "fact": "end_reason",
            "law": {"equals": "duration"},
            "remedy": "another run",
        }
    ],
    "judged": {},
    "free": {},
}


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A default run of which nothing is known but its beginning and end: it has a name that no XML may have."""
    line = first_event(make_plan(configure([]), SHAPE), "quick", 1_795_262_400.0)
    line = msgspec.structs.replace(line, dataset={**line.dataset, "name": "digi\x1b[2J<&>\x00"})
    return str(write_run(tmp_path / "runs" / "quick", [line, RunEnded(at=180.0, reason="duration")]))


@pytest.fixture
def ours(tmp_path: Path) -> str:
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump(OURS))
    return str(file)


def test_a_run_that_meets_all_rules_is_valid_in_all_outputs(aiperf: User, run: str, ours: str) -> None:
    answer, as_json = aiperf("check", run, "--division", ours), aiperf("check", run, "--division", ours, "--json")

    assert (answer.status, as_json.status) == (0, 0)
    assert answer.out.startswith(
        "quick by the rules file 'ours', no division of AIPerf (runs that ended): kept, of 1 rules"
    )
    assert "attempts lost: 0 of 0 (0.0 %), trials given up: 0 of 0 (0.0 %)" in answer.out.splitlines()[1]
    assert json.loads(as_json.out) == {
        "schema": "aiperf-check",
        "version": 1,
        "run": "quick",
        "division": "ours",
        "is_valid": True,
        "rules": {"length": "kept"},
        "breaches": [],
        "attempts_lost_share": 0.0,
        "trials_given_up_share": 0.0,
        "warnings": [],
    }


def test_every_breach_is_printed_with_source_line_and_fix(aiperf: User, run: str) -> None:
    answer = aiperf("check", run)

    assert answer.status == 1
    assert "not valid: " in answer.out.splitlines()[0]
    for id in ("data-set", "start", "warmup", "window", "epochs", "default-batch", "error", "precision"):
        assert f"  {id}: {division('ranking').rule(id).text} [" in answer.out
    assert "found: schedule.epochs=[6,9,12,15] (line 1 of the journal)" in answer.out
    assert "to fix it: schedule.epochs=[15,30,45,60]" in answer.out
    assert "\x1b" not in answer.out and "\x00" not in answer.out


def test_json_has_each_breach_with_its_texts(aiperf: User, run: str) -> None:
    answer = json.loads(aiperf("check", run, "--division", "quick", "--json").out)

    assert {each["id"]: each["is_unknown"] for each in answer["breaches"]} == {
        "data-set": False,
        "precision": True,
        "error": False,
    }
    (first, *_) = answer["breaches"]
    assert first["law"].startswith("images: name digits, ") and first["line"] == 1 and first["source"] == ["decided"]
    assert set(answer["rules"].values()) == {"kept", "broken", "unknown"}


def test_invented_results_of_a_simulated_run_are_skipped(aiperf: User, run: str, tmp_path: Path) -> None:
    line = first_event(make_plan(configure(["+cluster=simulated", "dataset=digits"]), SHAPE), "simulated", 0.0)
    line = msgspec.structs.replace(line, simulated=True)
    simulated = write_run(tmp_path / "simulated", [line, RunEnded(at=180.0, reason="duration")])

    answer = json.loads(aiperf("check", str(simulated), "--division", "quick", "--json").out)

    assert {id for id, outcome in answer["rules"].items() if outcome == "broken"} == {"real-machine"}
    assert answer["rules"]["error"] == "not looked at" and not answer["is_valid"]


@pytest.mark.parametrize("what", ["no run", "no division", "damaged"])
def test_a_run_that_cannot_be_checked_gives_status_2(aiperf: User, run: str, what: str) -> None:
    words = {
        "no run": ("check", "nowhere"),
        "no division": ("check", run, "--division", "quik"),
        "damaged": ("check", run),
    }[what]
    if what == "damaged":
        journal = Path(run) / "journal.jsonl"
        journal.write_bytes(journal.read_bytes().replace(b"duration", b"DURATION"))

    answer = aiperf(*words)

    assert answer.status == 2 and answer.err.startswith("aiperf: ") and "Traceback" not in answer.err


def test_score_and_check_agree_about_a_run(aiperf: User, run: str) -> None:
    answer = json.loads(aiperf("score", run, "--json").out)
    scored = answer["breaches"]
    checked = json.loads(aiperf("check", run, "--json").out)["breaches"]

    assert (
        scored
        == answer["ranking"]
        == [{name: value for name, value in each.items() if name != "law"} for each in checked]
    )


@pytest.fixture
def fixed(tmp_path: Path) -> str:
    """A run of the published workload with other momentum and batch, of which nothing is known but its beginning."""
    words = ["benchmark=hpc_ai500_ic", "trainer.momentum=0.9", "batch.default=128"]
    imagenet = DataSet("imagenet", 1_281_167, 50_000, 1000, 224, 3, (0.5,) * 3, (0.2,) * 3)
    line = first_event(make_plan(configure(words), SHAPE, imagenet), "fixed", 1_795_262_400.0)
    return str(write_run(tmp_path / "runs" / "fixed", [line]))


def test_a_level_shows_each_difference_with_layer_and_verdict(aiperf: User, fixed: str) -> None:
    shown, as_json = aiperf("check", fixed, "--level", "hardware"), aiperf("check", fixed, "--level", "free", "--json")
    strictest = aiperf("check", fixed, "--division", "hpc_ai500")

    assert (shown.status, as_json.status, strictest.status) == (1, 0, 0)
    assert strictest.out.splitlines()[0] == "fixed: strictest level free"
    lines = shown.out.splitlines()
    assert lines[0] == "fixed: level hardware is not satisfied"
    assert "    trainer.momentum: 0.9, reference 0.875 (free)" in lines
    assert "    batch.default: 128, reference 256 (hardware, system, free)" in lines
    assert lines[-1].startswith("  Reference: values of hpc_ai500_ic. Strictest level: free.")
    found = json.loads(as_json.out)
    assert (found["is_valid"], found["strictest"], found["reference"]) == (True, "free", "hpc_ai500_ic")
    assert {each["layer"] for each in found["differences"]} == {8}


def test_a_level_against_the_run_itself_is_the_strictest(aiperf: User, fixed: str, run: str) -> None:
    itself, other = (aiperf("check", fixed, "--level", "hardware", "--against", against) for against in (fixed, run))

    assert (itself.status, other.status) == (0, 1)
    assert "level hardware is satisfied" in itself.out and "Strictest level: hardware." in itself.out
    assert "Strictest level: none." in other.out and "data set's name: imagenet" in other.out
    assert "\x1b" not in other.out and "\x00" not in other.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--level", "soft"], "invalid choice"),
        (["--division", "quick", "--level", "free"], "--level and --against cannot be combined with --division quick"),
        (["--level", "free"], "has no preset, so its level is one against another run. Add --against"),
    ],
)
def test_a_level_that_cannot_be_checked_is_refused(aiperf: User, run: str, words: list[str], message: str) -> None:
    answer = aiperf("check", run, *words)

    assert answer.status == 2
    assert message in answer.err and answer.err.count("\n") == 1
