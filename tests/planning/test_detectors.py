"""Plans of detectors: the preset of extreme weather, and options that cannot go together, each refused with its fix."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import msgspec
import pytest

from aiperf.config import as_plain, configure
from aiperf.errors import BadConfiguration
from aiperf.journal.events import ProposalRequested, TrialProposed, TrialRejected, WorkerShape
from aiperf.journal.messages import ProposalFailed, ProposalReturned
from aiperf.planning.buildable import require_packages
from aiperf.planning.plan import check_options, first_event, make_plan
from aiperf.rules.limits import is_published_workload
from aiperf.rules.proposals import check, make, proposer_of
from aiperf.rules.search_space import space_of
from morphism import DamagedGraphFile, Detector, decode_architecture, encode_architecture, start
from morphism.detector import DETECTORS
from searchers.history import History
from tests.builders.detection import SMALL, WORDS

SHAPE = WorkerShape(source="a test", device="a processor", accelerators=0, ranks=2, cores=2, memory_bytes=8 << 30)
PUBLISHED = {
    "name": "weather",
    "image": 768,
    "width": 1152,
    "channels": 16,
    "classes": 4,
    "training_images": 23 * 1460,
    "validation_images": 2 * 1460,
}


def test_extreme_weather_is_one_trial_of_50_epochs() -> None:
    conf = configure(["benchmark=hpc_ai500_ewa"])

    assert as_plain(conf)["benchmark"] == {"name": "hpc_ai500_ewa", "target_quality": 0.35, "exponent": 10}
    assert (conf.dataset.name, conf.start, conf.hpo.name) == ("weather", "faster_rcnn_r50", "off")
    assert (conf.limits.trials, conf.schedule.epochs, conf.accelerators_per_worker) == (1, [50], "all")
    trainer = conf.trainer
    assert (trainer.learning_rate, trainer.reference_batch, trainer.momentum, trainer.weight_decay) == (
        0.02,
        16,
        0.9,
        1e-4,
    )


@pytest.mark.parametrize(
    ("words", "data", "is_published"),
    [
        ([], {}, True),
        (["trainer.learning_rate=0.01", "schedule.duration_seconds=3600"], {}, True),
        ([], {"width": 768}, False),
        ([], {"name": "weather_synthetic"}, False),
        ([], {"training_images": 1460}, False),
        (["start=faster_rcnn_small", "benchmark.target_quality=0.35"], {}, False),
        (["benchmark.target_quality=0.1"], {}, False),
        (["benchmark.target_quality=0.4"], {}, False),
        (["schedule.epochs=[12]"], {}, False),
        (["schedule.epochs=[25,50]"], {}, False),
        (["benchmark.exponent=1"], {}, False),
    ],
)
def test_published_workload_is_data_start_target_epochs_and_exponent(
    words: list[str], data: dict[str, Any], is_published: bool
) -> None:
    conf = configure(["benchmark=hpc_ai500_ewa", *words])

    assert is_published_workload(as_plain(conf), PUBLISHED | data, conf.start) == is_published
    assert not is_published_workload(as_plain(configure([])), PUBLISHED | data, conf.start)


def test_first_line_has_the_detector_and_its_metric() -> None:
    plan = make_plan(configure(WORDS), SHAPE)
    first = msgspec.json.decode(msgspec.json.encode(first_event(plan, "a", 0.0)), type=dict)

    assert first["metric"] == "map50"
    assert first["start_graph"] == {
        "kind": "detector",
        "network": "faster_rcnn_small",
        "height": 32,
        "width": 64,
        "channels": 16,
        "outputs": 5,
    }
    assert (first["dataset"]["targets"], first["dataset"]["width"]) == ("boxes", 64)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset=digits", "start=faster_rcnn_small"], "learns boxes, but found dataset=digits with classes"),
        (
            ["dataset=digits", "start=resnet20", "benchmark=hpc_ai500_ewa", "benchmark.target_quality=0.3"],
            "benchmark=hpc_ai500_ewa cannot be combined with dataset=digits, which has classes",
        ),
        (["benchmark=hpc_ai500_ic", "benchmark.target_quality=0.3"], "cannot be combined with dataset=weather_synthetic"),
        (["start=resnet20"], "start=resnet20 learns classes, but found dataset=weather_synthetic with boxes"),
        (["limits.trials=2"], "limits.trials=1, but found limits.trials=2"),
        (["limits.trials=null"], "limits.trials=1, but found limits.trials=null"),
        (["trainer.compile=on"], "trainer.compile=off, but found trainer.compile=on"),
        (["dataset.height=40"], "height of a detector's image is a multiple of 32, at most 16384, but found 40: use 32"),
        (["+cluster=simulated"], "start=faster_rcnn_small cannot be combined with"),
        (["dataset.training_images=1000000", "dataset.width=2048", "budget.batch=1"], "each rank generates the set"),
    ],
)  # fmt: skip
def test_contradicting_options_are_refused(words: list[str], message: str) -> None:
    options = {word.partition("=")[0] for word in words}
    kept = [word for word in WORDS if word.partition("=")[0] not in options]
    if "dataset=digits" in words:
        kept = [word for word in kept if not word.startswith("dataset.")]
    with pytest.raises(BadConfiguration, match=message):
        make_plan(configure([*kept, *words]), SHAPE)


def test_several_workers_are_refused() -> None:
    words = ["benchmark=hpc_ai500_ewa", "accelerators_per_worker=2"]

    with pytest.raises(BadConfiguration, match="cannot be combined with accelerators_per_worker=2"):
        check_options(configure(words))


def test_missing_pycocotools_is_reported_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pycocotools" else known(name))

    with pytest.raises(BadConfiguration, match=r"dataset=weather_synthetic needs the package pycocotools.*\[weather\]"):
        require_packages(configure(["dataset=weather_synthetic"]))
    require_packages(configure(["dataset=digits"]))


@pytest.mark.parametrize("network", [*(Detector(name, 64, 96) for name in DETECTORS), start("digits_small")])
def test_architecture_is_read_as_it_was_written(network: Detector) -> None:
    again = decode_architecture(encode_architecture(network))

    assert again == network and again.fingerprint == network.fingerprint


@pytest.mark.parametrize(
    "change",
    [{"kind": "segmenter"}, {"network": "yolo"}, {"height": 40}, {"width": 64.0}, {"outputs": True}, {"more": 1}],
)
def test_damaged_detectors_are_refused(change: dict[str, object]) -> None:
    encoded = json.loads(encode_architecture(SMALL)) | change

    with pytest.raises(DamagedGraphFile, match="but found"):
        decode_architecture(json.dumps(encoded))


def requested(number: int) -> ProposalRequested:
    return ProposalRequested(at=0.0, number=number, worker=0, round=1, seed=1, position=1)


def test_only_the_detector_itself_is_proposed() -> None:
    plan = make_plan(configure(WORDS), SHAPE)
    history = History(space_of(first_event(plan, "a", 0.0)))
    proposer = proposer_of(plan.conf.searcher, plan.conf.hpo)
    word = make(proposer, history, ProposalRequested(number=0, worker=0, round=1, seed=1, position=0))
    nothing = make(proposer, history, ProposalRequested(number=1, worker=0, round=1, seed=1, position=0))
    assert isinstance(word, ProposalReturned)

    event = check(history, requested(0), word, 1.0)
    grown = check(
        history, requested(0), msgspec.structs.replace(word, morphs=({"morph": "deepen", "after": "a"},)), 1.0
    )

    assert isinstance(event, TrialProposed)
    assert (event.fingerprint, event.can_grow, event.own_kernel) == (SMALL.fingerprint, False, None)
    assert event.region_flops == SMALL.counts.per_region.forward_flops > 0
    assert event.validation_flops == SMALL.counts.per_image.forward_flops
    assert isinstance(nothing, ProposalFailed) and nothing.reason.startswith("a detector is not searched")
    assert isinstance(grown, TrialRejected)
