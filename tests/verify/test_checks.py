"""Tests of the checks of plan, workers, window edges, rates and score.

Journals are those of a recorded real run, edited and with new hash chains. Other kinds of forgery: `test_forgeries.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.__main__ import main
from aiperf.journal.events import TrialFailed
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME, read
from aiperf.report.gather import gather
from aiperf.rules.decide import WEIGHTS_GONE
from aiperf.verify import CheckResult, Verification, replayed_rules, verify
from tests.builders.forged_journal import Line, lines_of, write

REAL = lines_of(Path(__file__).parents[1] / "golden" / "resumed-v4.jsonl")
A100 = "NVIDIA A100-SXM4-80GB"


def forged(folder: Path, change: Callable[[list[Line]], object]) -> Verification:
    lines = copy.deepcopy(REAL)
    change(lines)
    lines[0]["config_hash"] = config_hash(lines[0]["config"])
    return verify(write(folder, lines), sample=0)


def findings_of(found: Verification, check: str) -> list[tuple[str, str]]:
    return [(finding.certainty, finding.found) for finding in found.findings if finding.check == check]


def of_workers(lines: list[Line], **fields: Any) -> None:
    for line in lines:
        if line["event"] == "WorkerJoined":
            line |= {name: value for name, value in fields.items() if name != "machine"}
            line["machine"] |= fields.get("machine", {})


def configured(part: str, name: str, value: Any) -> Callable[[list[Line]], None]:
    def change(lines: list[Line]) -> None:
        lines[0]["config"][part][name] = value

    return change


@pytest.mark.parametrize(
    ("part", "name", "value", "found"),
    [
        ("budget", "factor", 4.0, "forward_flops"),
        ("batch", "default", 32, "default_batch_size"),
        ("batch", "largest", 16, "largest_batch_size"),
        ("schedule", "warmup_rounds", 5, "tuning_from_round"),
    ],
)
def test_an_option_unlike_the_recorded_plan_contradicts_it(
    part: str, name: str, value: Any, found: str, tmp_path: Path
) -> None:
    verified = forged(tmp_path, configured(part, name, value))

    assert [text for _, text in findings_of(verified, "plan") if text.startswith(found)]
    assert not verified.is_sound


@pytest.mark.parametrize(
    ("part", "name", "value", "found"),
    [
        ("searcher", "name", "oracle", "searcher is one of"),
        ("searcher", "morphs", 0, "morphs is between 1 and 100"),
        ("searcher", "candidates", "many", "Expected `int`"),
        ("hpo", "name", "luck", "hpo is one of"),
        ("hpo", "startup_trials", -1, "startup_trials is between 0 and 1000000"),
    ],
)
def test_invalid_searchers_and_tuners_are_refused_with_reason(
    part: str, name: str, value: Any, found: str, tmp_path: Path
) -> None:
    (finding,) = forged(tmp_path, configured(part, name, value)).findings

    assert (finding.check, finding.certainty, finding.line) == ("reading", "contradiction", 1)
    assert found in finding.found


def test_a_starting_graph_unlike_its_name_contradicts_the_plan(tmp_path: Path) -> None:
    verified = forged(tmp_path, lambda lines: lines[0]["config"].update(start="resnet20"))

    assert findings_of(verified, "plan")[0][1].startswith("start_graph")


def test_more_ranks_than_accelerators_on_a_host_contradict(tmp_path: Path) -> None:
    one = [{"id": "GPU-0", "kind": "accelerator", "model": A100}]

    verified = forged(tmp_path, lambda lines: of_workers(lines, device=A100, machine={"accelerators": one}))

    assert ("contradiction", "vm has 1 accelerators, but 2 ranks at once, of workers [0]") in findings_of(
        verified, "workers"
    )


def test_a_device_that_its_host_does_not_have_is_a_contradiction(tmp_path: Path) -> None:
    two = [{"id": f"GPU-{index}", "kind": "accelerator", "model": A100} for index in range(2)]

    verified = forged(tmp_path, lambda lines: of_workers(lines, machine={"accelerators": two}))

    assert all("'AMD EPYC'" in text or "Processor" in text for _, text in findings_of(verified, "workers"))
    assert findings_of(verified, "workers")


def quick(lines: list[Line]) -> None:
    """The same work in a hundred-thousandth of the busy time."""
    for line in lines:
        work = line.get("interval") or line
        for name in ("busy_seconds", "communication_seconds", "validation_seconds"):
            if name in work:
                work[name] *= 1e-5


def test_work_above_an_accelerators_dense_peak_contradicts(tmp_path: Path) -> None:
    def change(lines: list[Line]) -> None:
        two = [{"id": f"GPU-{index}", "kind": "accelerator", "model": A100} for index in range(2)]
        of_workers(lines, device=A100, machine={"accelerators": two})
        quick(lines)

    found = findings_of(forged(tmp_path, change), "rates")

    assert found and all(certainty == "contradiction" for certainty, _ in found)
    assert "dense peak 312 TFLOPS" in found[0][1]


def test_work_above_a_processors_measured_peak_is_sound(tmp_path: Path) -> None:
    verified = forged(tmp_path, quick)

    assert {certainty for certainty, _ in findings_of(verified, "rates")} == {"cannot be determined"}
    assert verified.is_sound and verified.untold


def test_a_moved_end_of_the_warm_up_contradicts(tmp_path: Path) -> None:
    words = ["+cluster=simulated", "cluster.workers=8", "searcher=random", "hpo=off", f"runs={tmp_path}"]
    window = ["schedule.duration_seconds=1200", "schedule.warmup_seconds=300", "dataset=imagenet"]
    assert main([*words, *window]) == 0
    (journal,) = tmp_path.glob(f"*/{NAME}")
    lines = lines_of(journal)
    assert verify(journal, sample=0).findings == ()

    lines[0]["warmup_seconds"] = lines[0]["config"]["schedule"]["warmup_seconds"] = 151.0
    lines[0]["config_hash"] = config_hash(lines[0]["config"])
    verified = verify(write(tmp_path / "forged", lines), sample=0)

    assert "contradiction" in {certainty for certainty, _ in findings_of(verified, "window edges")}, verified.checks


def report_of(lines: list[Line], folder: Path) -> dict[str, Any]:
    """The parts of report.json that `verify` reads, of these lines."""
    figures = gather(read(write(folder, lines))).score
    return {"run": {"events": len(lines)}, "score": dataclasses.asdict(figures)}


def verified_with(folder: Path, lines: list[Line], report: object) -> CheckResult:
    """The check of a report next to a journal."""
    run = write(folder, lines)
    (run / "report.json").write_text(report if isinstance(report, str) else json.dumps(report))
    return next(check for check in verify(run, sample=0).checks if check.name == "score")


def test_a_report_of_other_figures_is_a_contradiction(tmp_path: Path) -> None:
    report = report_of(REAL, tmp_path / "whole")
    changed = {**report, "score": report["score"] | {"flops_per_second": 2.8e10}}

    honest, forged_ = (verified_with(tmp_path / "run", REAL, one) for one in (report, changed))

    assert (honest.findings, honest.not_checked) == ([], None)
    (found,) = forged_.findings
    assert found.certainty == "contradiction" and found.found.startswith("flops_per_second: 28000000000.0 in report.js")


def test_an_older_report_is_compared_with_its_own_lines(tmp_path: Path) -> None:
    """An honest run that was resumed after its report was written."""
    report = report_of(REAL[:100], tmp_path / "earlier")
    changed = {**report, "score": report["score"] | {"trials_finished": 99}}

    honest, forged_ = (verified_with(tmp_path / "run", REAL, one) for one in (report, changed))

    assert honest.findings == [] and honest.examined
    assert honest.not_checked == "34 of 134 lines were written after report.json"
    assert [one.certainty for one in forged_.findings] == ["contradiction"]


def test_a_journal_shorter_than_its_report_is_a_contradiction(tmp_path: Path) -> None:
    report = report_of(REAL, tmp_path / "whole")

    found = verified_with(tmp_path / "run", REAL[:100], report)

    assert [one.found for one in found.findings] == ["report.json is made from 134 lines; the journal has 100"]
    assert found.contradictions == 1


def test_a_report_of_lines_that_were_rolled_back_is_undetermined(tmp_path: Path) -> None:
    lines = copy.deepcopy(REAL)
    resume = next(line for line in lines if line["event"] == "RunResumed")
    resume.update(rolled_back_lines=90, cut_sha256="0" * 64)
    report = report_of(lines, tmp_path / "whole")

    found = verified_with(tmp_path / "run", lines, {**report, "run": {"events": lines.index(resume) + 50}})

    assert {one.certainty for one in found.findings} == {"cannot be determined"}


NUMBER = "9" * 400


@pytest.mark.parametrize(
    "change",
    [
        lambda report: {**report, "score": report["score"] | {"flops_per_second_interval": 5.0}},
        lambda report: {**report, "score": report["score"] | {"flops_per_second_interval": [[1], [2]]}},
        lambda report: {**report, "score": report["score"] | {"error": {}}},
        lambda report: {**report, "run": {"events": -1}},
        lambda report: [],
        lambda report: json.dumps(report).replace('"window_seconds": ', '"window_seconds": ' + NUMBER),
        lambda report: json.dumps(report).replace('"events": ', '"events": ' + NUMBER),
        lambda report: '{"other":' + "[" * 100_000 + "]" * 100_000 + "}",
        lambda report: json.dumps(report)[:-5],
    ],
    ids=["a number", "lists", "an object", "lines below 0", "a list", "400 digits", "400 lines", "brackets", "cut"],
)
def test_a_report_of_another_shape_cannot_be_read(tmp_path: Path, change: Callable[[Any], object]) -> None:
    report = report_of(REAL, tmp_path / "whole")

    found = verified_with(tmp_path / "run", REAL, change(report))

    (finding,) = found.findings
    assert finding.certainty == "cannot be determined"
    assert finding.found.startswith("report.json cannot be read (")


def test_a_broken_chain_is_answered_with_its_line_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path, copy.deepcopy(REAL))
    whole = (run / NAME).read_bytes()
    (run / NAME).write_bytes(whole.replace(b'"accuracy":0.9', b'"accuracy":0.8', 1))

    assert main(["verify", str(run)]) == 1

    output = capsys.readouterr().out
    assert "journal damaged at line" in output and "its hash does not follow" in output


def test_former_words_of_a_decision_are_the_same_decision() -> None:
    now = TrialFailed(at=1.0, trial=7, reason=f"the weights of its parent, trial 3, {WEIGHTS_GONE}", cause="machine")
    former = msgspec.structs.replace(now, reason="the weights of its parent, trial 3, went while it waited")

    assert replayed_rules._are_one(now, former)
    assert not replayed_rules._are_one(now, msgspec.structs.replace(former, reason="other words"))
