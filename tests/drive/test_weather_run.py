"""Extreme weather on two real ranks, by torch and by Horovod: killed, resumed, verified, and its quality audited."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import (
    AnyEvent,
    EpochFinished,
    RunResumed,
    RunStarted,
    TrialProposed,
    WorkerJoined,
)
from aiperf.journal.journal import NAME
from aiperf.report.write import report_of
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS
from tests.builders.detection import WORDS
from tests.builders.forged_journal import lines_of, write
from tests.rigs.real_run import RealRun
from tools.verify_standalone import verified

EPOCHS, TRAINED, VALIDATED = 4, 16, 6


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that was killed within an epoch and resumed."""

    folder: Path
    events: list[AnyEvent]
    output: str


@pytest.fixture(scope="module", params=["torch", pytest.param("horovod", marks=pytest.mark.slow)])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    place, begun = tmp_path_factory.mktemp(request.param), []
    try:
        run = RealRun(
            place,
            "benchmark=hpc_ai500_ewa",
            "benchmark.target_quality=0.5",
            "start=faster_rcnn_small",
            *(
                word
                for word in WORDS
                if word.partition("=")[0] not in ("hpo", "limits.trials", "limits.spares", "schedule.warmup_seconds")
            ),
            f"schedule.epochs=[{EPOCHS}]",
            f"trainer.collective={request.param}",
            "trainer.precision=fp32",
            "preflight.probes=none",
        )
        begun.append(run)
        run.until(lambda events: any(isinstance(event, EpochFinished) for event in events))
        time.sleep(random.Random(request.param).uniform(0.0, 3.0))
        run.kill()
        again = RealRun(place, f"resume={run.folder}")
        begun.append(again)
        assert again.wait() == 0, again.output.read_text()
        yield Finished(again.folder, again.events(), again.output.read_text())
    finally:
        for run in begun:
            run.end()


def one(events: list[AnyEvent], kind: type) -> list:  # type: ignore[type-arg]  # events of one kind
    return [event for event in events if isinstance(event, kind)]


def last_epochs(events: list[AnyEvent]) -> dict[int, EpochFinished]:
    return {event.epoch: event for event in one(events, EpochFinished)}


def test_same_images_and_regions_are_counted_after_a_kill(finished: Finished) -> None:
    events = finished.events
    (proposed,) = one(events, TrialProposed)
    epochs = last_epochs(events)
    kept = work_log(events)

    assert one(events, RunResumed) and {event.ranks for event in one(events, WorkerJoined)} == {2}
    assert sorted(epochs) == [*range(1, EPOCHS + 1)]
    whole = EPOCHS * (
        TRAINED * (proposed.forward_flops + proposed.backward_flops) + VALIDATED * proposed.validation_flops
    ) + proposed.region_flops * sum(event.regions for event in epochs.values())
    assert fsum(kept.intervals.flops.tolist()) == whole
    assert all(event.regions > VALIDATED and event.validation_loss is None for event in epochs.values())


def test_score_has_a_quality_and_no_error(finished: Finished) -> None:
    first = finished.events[0]
    assert isinstance(first, RunStarted) and first.metric == "map50" and first.start_graph["kind"] == "detector"

    found, second = score(work_log(finished.events)), verified(finished.folder)

    assert found.valid and found.error is None and found.regulated_flops_per_second is None
    assert found.quality == max(event.accuracy for event in one(finished.events, EpochFinished))
    for name in ("flops_per_second", "cumulative_flops_per_second", "quality", "error", "wasted_flops", "busy_share"):
        assert second[name] == getattr(found, name), name


def test_training_rate_is_the_papers_product(finished: Finished) -> None:
    """N·R·C: images of a rank per second, ranks, and operations of an image, from the journal's intervals."""
    (proposed,) = one(finished.events, TrialProposed)
    result = report_of(finished.folder).fixed_network
    columns = work_log(finished.events).intervals
    counted = columns.flops > 0
    seconds = fsum((columns.clock("busy")[counted] - columns.clock("validation")[counted]).tolist())
    of_a_rank = fsum((columns.training_images[counted] / columns.ranks[counted]).tolist()) / seconds

    assert result is not None and result.training_flops_per_second is not None
    product = of_a_rank * 2 * (proposed.forward_flops + proposed.backward_flops)
    assert result.training_flops_per_second == pytest.approx(product, rel=1e-9)
    assert result.quality_sampling_share is None and result.valid_flops_interval is None


def test_journal_is_verified(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(finished.folder), "--all"]) == 0, capsys.readouterr().out


def test_report_shows_the_quality_and_no_search(finished: Finished) -> None:
    page = (finished.folder / "report.html").read_text()

    assert "mAP@0.5" in page and "Quality over epochs" in page
    for foreign in ("top-1 accuracy", "regulated", "Tree of architectures", "−ln(error)"):
        assert foreign not in page.split("Configuration")[0], foreign
    assert "best mAP@0.5" in finished.output and "not the published workload" in finished.output
    assert "error" not in finished.output.partition("\nscore ")[2]


def test_quality_is_confirmed_and_its_boxes_are_written(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "boxes.json"
    assert main(["quality", str(finished.folder), "--detections", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["quality", "--detections", str(file), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)

    assert found["is_confirmed"] and found["metric"] == "map50" and found["images"] == VALIDATED
    assert {"metric": "map50", "images": VALIDATED, "quality": found["quality_again"]}.items() <= alone.items()
    images = json.loads(file.read_text())["images"]
    assert len(images) == VALIDATED and all(len(row) == 5 for image in images for row in image["truth"])
    assert main(["quality", str(finished.folder), "--detections", str(file)]) == 2, "a file is not replaced"


@pytest.mark.parametrize("field", ["accuracy", "regions"])
def test_raised_quality_or_regions_are_found(finished: Finished, tmp_path: Path, field: str) -> None:
    lines = lines_of(finished.folder / NAME)
    for line in lines:
        if line["event"] == "EpochFinished":
            line[field] = 0.9 if field == "accuracy" else round(1.05 * line[field])
        elif line["event"] == "TrialFinished" and field == "accuracy":
            line |= {"accuracy": 0.9, "reported_accuracy": 0.9}
    shutil.copytree(finished.folder / CHECKPOINTS, tmp_path / CHECKPOINTS)

    assert main(["quality", str(write(tmp_path, lines))]) == 1


@pytest.mark.parametrize(
    ("change", "law"),
    [
        ({"regions": 10**6}, "regions"),
        ({"validation_loss": 1.0}, "validation loss"),
        ({"missing_regions": 10**6}, "missing_regions"),
    ],
)
def test_impossible_epochs_are_contradictions(
    finished: Finished, tmp_path: Path, change: dict[str, float], law: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(finished.folder / NAME)
    next(line for line in lines if line["event"] == "EpochFinished").update(change)

    assert main(["verify", str(write(tmp_path, lines))]) == 1
    assert law in capsys.readouterr().out


def test_raised_operations_of_a_region_are_a_contradiction(finished: Finished, tmp_path: Path) -> None:
    lines = lines_of(finished.folder / NAME)
    next(line for line in lines if line["event"] == "TrialProposed")["region_flops"] += 1

    assert main(["verify", str(write(tmp_path, lines)), "--all"]) == 1


def test_another_metric_is_a_contradiction(finished: Finished, tmp_path: Path) -> None:
    lines = lines_of(finished.folder / NAME)
    lines[0]["metric"] = "top1"

    assert main(["verify", str(write(tmp_path, lines))]) == 1
