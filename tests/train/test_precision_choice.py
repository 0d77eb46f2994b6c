"""`auto` is the precision an accelerator is fastest in, one for all workers on its kind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.measure.precision_names import candidates
from aiperf.train import precision_choice
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.precision import choose
from aiperf.train.precision_choice import FASTER_BY, fastest, measured, settled, shared
from aiperf.train.trainer_config import TrainerConf
from tests.builders.order import graph

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("accelerator", "capability", "first"),
    [
        ("V100", (7, 0), "fp16"),
        ("T4", (7, 5), "fp16"),
        ("A100", (8, 0), "bf16"),
        ("H200", (9, 0), "bf16"),
        ("P100", (6, 0), "fp32"),
    ],
)
def test_half_precision_is_first_with_tensor_cores(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, capability: tuple[int, int], first: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)

    assert choose("auto", CUDA).name == candidates(CUDA)[0] == first


def test_fp16_brings_its_loss_scaling() -> None:
    assert choose("fp16", CPU).scaler() is not None
    assert choose("bf16", CPU).scaler() is None


@given(st.dictionaries(st.sampled_from(["bf16", "fp16", "fp32"]), st.floats(0.01, 10.0), min_size=1))
def test_a_later_candidate_is_taken_only_where_it_saves_enough(seconds: dict[str, float]) -> None:
    first, *others = seconds
    found = fastest(seconds)

    if found == first:
        assert all(seconds[name] >= seconds[first] * (1 - FASTER_BY) for name in others)
    else:
        assert seconds[found] < seconds[first] * (1 - FASTER_BY)


def test_a_finding_is_shared_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)

    assert shared(tmp_path, "H200", lambda: "fp16") == "fp16"
    assert shared(tmp_path, "H200", lambda: "bf16") == "fp16"
    assert len(list(tmp_path.iterdir())) == 1


def test_tf32_is_refused_on_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 4))
    assert choose("tf32", CUDA).name == "tf32"

    monkeypatch.setattr(torch.version, "hip", "7.0")
    with pytest.raises(BadConfiguration, match="needs an NVIDIA accelerator"):
        choose("tf32", CUDA)
    assert "tf32" not in candidates(CUDA)


def test_real_steps_are_timed_in_each_precision() -> None:
    seconds = measured(TrainerConf(), graph(), CPU, ("fp32", "bf16"))

    assert list(seconds) == ["fp32", "bf16"]
    assert all(0 < each < 10 for each in seconds.values())


def test_a_batch_that_does_not_fit_is_halved_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    def timed(conf: object, start: object, device: object, precision: object, batch: int) -> float:
        name: str = precision.name  # type: ignore[attr-defined]
        tried.append((name, batch))
        if name == "fp32" and batch > 16:
            raise torch.cuda.OutOfMemoryError
        return 1.0

    monkeypatch.setattr(precision_choice, "_timed", timed)

    assert measured(TrainerConf(), graph(), CPU, ("fp16", "fp32")) == {"fp16": 1 / 16, "fp32": 1 / 16}
    assert tried[-2:] == [("fp16", 16), ("fp32", 16)]


def test_workers_that_measure_at_once_and_differ_believe_one(tmp_path: Path) -> None:
    together, found = threading.Barrier(4), []

    def worker(own: str) -> None:
        def measure() -> str:
            together.wait(60)
            return own

        found.append(shared(tmp_path, "H200", measure))

    workers = [threading.Thread(target=worker, args=(name,)) for name in ("bf16", "fp16", "bf16", "fp16")]
    for each in workers:
        each.start()
    for each in workers:
        each.join()

    assert len(found) == 4 and len(set(found)) == 1
    assert shared(tmp_path, "H200", lambda: pytest.fail("measured again")) == found[0]
    assert len(list(tmp_path.iterdir())) == 1


def test_auto_is_settled_once_and_a_choice_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_choice, "candidates", lambda device: ("fp32", "bf16"))
    monkeypatch.setattr(precision_choice, "measured", lambda *_: {"fp32": 1.0, "bf16": 0.5})

    assert settled(TrainerConf(), graph(), CPU, SingleRank(), tmp_path).precision == "bf16"
    monkeypatch.setattr(precision_choice, "measured", lambda *_: pytest.fail("measured again"))
    assert settled(TrainerConf(), graph(), CPU, SingleRank(), tmp_path).precision == "bf16"
    assert settled(TrainerConf(precision="fp32"), graph(), CPU, SingleRank(), tmp_path).precision == "fp32"
