"""Simulated run from a configuration to its journal: equal seeds give equal bytes, and endless runs are refused."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from aiperf import config
from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.score import score
from aiperf.accounting.work_log import window, work_log
from aiperf.config import RunConf
from aiperf.data.dataset_config import DataSetConf, FilesConf, ImagenetConf, SyntheticConf
from aiperf.data.description import DataSet
from aiperf.drive.driver import Driver
from aiperf.errors import BadConfiguration, JournalNotWritten
from aiperf.journal.events import EpochFinished, Progress, RunEnded, RunStarted, TrialFinished, TrialPrepared, Work
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.simulate.model.profile import calibrated, pace, profile, profile_of
from aiperf.simulate.session import drive, open_run, simulate, world_of
from cluster.faults import AnyFault, CrashConf, NodeLostConf, StragglerConf, WorkerLostConf
from cluster.simulated import SimulatedConf
from cluster.topology import LinkConf
from morphism import cost, start
from searchers.searcher_config import OffConf, RandomConf
from tests.audit import restarts
from tests.audit.planted_faults import AllGoneConf
from tests.builders.warnings import warnings_of


def configured(seed: int = 0, hours: float = 1.5, **cluster: object) -> RunConf:
    return RunConf(
        dataset=ImagenetConf(),
        schedule=ScheduleConf(duration_seconds=3600 * hours, warmup_seconds=1200.0),
        searcher=RandomConf(),
        hpo=OffConf(),
        cluster=SimulatedConf(**{"workers": 3, **cluster}),  # type: ignore[arg-type]
        seed=seed,
    )


def journal(conf: RunConf, path: Path) -> Path:
    opening = open_run(conf)
    drive(world_of(opening), opening.first, path)
    return path


@dataclass
class Clouds(FilesConf):
    """Data set that the product does not know, with a missing module."""

    module: ClassVar[str] = "somewhere.clouds"
    name: str = "clouds"

    def published(self) -> DataSet:
        return DataSet(self.name, 1_000, 200, 7, 64, 3, (0.5,) * 3, (0.25,) * 3)


def test_published_set_can_be_simulated_without_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(config._CHOSEN, DataSetConf, (*config._CHOSEN[DataSetConf], Clouds))
    opening = open_run(replace(configured(hours=0.5), dataset=Clouds()))
    drive(world_of(opening), opening.first, tmp_path / NAME)

    started, *lines = read(tmp_path / NAME)
    assert isinstance(started, RunStarted)
    assert (started.dataset["training_images"], started.dataset["classes"]) == (1_000, 7)
    assert any(isinstance(line, TrialFinished) for line in lines)
    with pytest.raises(ModuleNotFoundError, match="somewhere"):  # its files are named and required
        open_run(replace(configured(), dataset=Clouds(root=str(tmp_path))))


FAULTS: list[AnyFault] = [
    WorkerLostConf(rate=0.4),
    CrashConf(),
    NodeLostConf(),
    StragglerConf(),
]


@pytest.mark.parametrize("faults", [[], FAULTS], ids=["calm", "faults"])
def test_equal_seeds_write_equal_journals_byte_for_byte(faults: list[AnyFault], tmp_path: Path) -> None:
    first = journal(configured(5, 0.5, faults=faults), tmp_path / "a.jsonl").read_bytes()
    second = journal(configured(5, 0.5, faults=faults), tmp_path / "b.jsonl").read_bytes()
    other = journal(configured(6, 0.5, faults=faults), tmp_path / "c.jsonl").read_bytes()

    assert first == second
    assert first != other


def test_first_line_marks_a_simulation_without_host_or_time(tmp_path: Path) -> None:
    (started, *_) = read(journal(configured(hours=0.5), tmp_path / NAME))

    assert isinstance(started, RunStarted)
    assert started.simulated
    assert (started.started_unix, started.machine, started.versions) == (0.0, {}, {})


def test_simulated_run_is_scored_with_a_warning(tmp_path: Path) -> None:
    conf = configured()

    played = list(read(journal(conf, tmp_path / NAME)))
    scored = score(work_log(played))

    assert isinstance(conf.cluster, SimulatedConf)
    assert scored.valid and scored.flops_per_second is not None
    assert 0.85 < scored.flops_per_second / (conf.cluster.flops * 24) < 1.05
    assert any("simulated" in warning.text for warning in warnings_of(played))


def test_cost_of_faults_is_in_the_time_breakdown(tmp_path: Path) -> None:
    opening = open_run(configured())
    restarts.drive(
        world_of(opening), opening.first, tmp_path / NAME, faults=[AllGoneConf(at_seconds=2000, seconds=900)]
    )
    kept = work_log(read(tmp_path / NAME))

    lines = {each.name: each.share for each in time_breakdown(accelerator_time(kept, window(kept))).lines}

    assert sum(lines.values()) == pytest.approx(1.0)
    # Lost for 900 s, noticed after 10 s, at most 30 s until all are back, of 4200 s.
    assert 890 / 4200 < lines["absent"] + lines.get("lost", 0.0) < 1200 / 4200
    assert min(lines.values()) > -1e-9


def test_a_command_line_run_leaves_a_folder_with_a_whole_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns: list[float] = []
    conf = replace(configured(hours=0.5), runs=str(tmp_path), name="rehearsed")

    folder = simulate(open_run(conf), lambda driver: turns.append(driver.clock.now()))

    assert len(list(read(folder))) > 10
    told = capsys.readouterr().out
    assert "events" in told and "proposals" in told
    assert turns == sorted(turns) and turns[-1] >= 1800.0


def test_ctrl_c_once_ends_a_simulated_run_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def press(driver: Driver) -> None:
        if driver.clock.now() > 600 and not driver.interrupted:
            os.kill(os.getpid(), signal.SIGINT)

    folder = simulate(open_run(replace(configured(hours=0.5), runs=str(tmp_path), name="ended")), press)

    *_, last = read(folder)
    assert isinstance(last, RunEnded) and last.reason == "interrupted" and 600 < last.at < 1800
    assert "simulated 10 min" in capsys.readouterr().out


def test_full_real_disk_ends_a_simulation_without_resume_advice(tmp_path: Path) -> None:
    opening = open_run(configured(workers=2))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(
            JournalNotWritten, match="Make room, then: simulate it again, from its beginning"
        ) as stopped:
            drive(world_of(opening), opening.first, tmp_path / NAME)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "resume=" not in str(stopped.value)
    assert len(list(read(tmp_path / NAME))) > 2  # the written lines remain


def test_a_run_that_was_begun_to_ignore_ctrl_c_goes_on(tmp_path: Path) -> None:
    pressed: list[float] = []

    def press(driver: Driver) -> None:
        if driver.clock.now() > 600 and not pressed:
            pressed.append(driver.clock.now())
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script's shell does for `python -m aiperf … &`
    try:
        folder = simulate(open_run(replace(configured(hours=0.5), runs=str(tmp_path), name="ignoring")), press)
    finally:
        signal.signal(signal.SIGINT, before)

    *_, last = read(folder)
    assert pressed and isinstance(last, RunEnded) and last.reason == "duration"


def test_run_with_too_many_epochs_is_refused_with_a_remedy() -> None:
    conf = replace(configured(workers=4096, hours=12), dataset=SyntheticConf(), start="digits_small")

    with pytest.raises(BadConfiguration, match=r"dataset=imagenet.*cluster\.flops"):
        open_run(conf)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("workers", 0),
        ("flops", 0.0),
        ("overlap", 1.5),
        ("links", []),
        ("turn_seconds", -1.0),
        ("bytes_per_element", 1),
        ("ceiling", 0),
    ],
)
def test_an_option_without_sense_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(BadConfiguration, match=f"cluster.{option} "):
        open_run(configured(0, 1.5, **{option: value}))


@pytest.mark.parametrize("option", ["attempts", "silence_seconds", "progress_seconds", "progress_per_second"])
def test_a_limit_that_makes_no_run_is_refused_by_name(option: str) -> None:
    with pytest.raises(BadConfiguration, match=f"limits.{option} "):
        open_run(replace(configured(), limits=replace(LimitsConf(), **{option: 0})))


def test_intervals_widen_with_the_workers_and_none_is_a_stub(tmp_path: Path) -> None:
    conf = replace(configured(hours=1.0, join_seconds=0.0), limits=LimitsConf(progress_per_second=3 / 50))
    intervals: list[Work] = [
        event.interval
        for event in read(journal(conf, tmp_path / NAME))
        if isinstance(event, Progress | EpochFinished) and event.interval is not None
    ]

    lengths = [
        each.end - each.start
        for each in intervals
        # except those that the window's edges cut, and the following ones
        if not any(each.start <= edge <= each.end + 75.0 for edge in (1200.0, 3600.0)) and each.start > 1300.0
    ]

    assert lengths
    assert all(25.0 <= length <= 75.0 + 1.0 for length in lengths)


def test_profile_recovers_the_figures_of_a_simulated_journal(tmp_path: Path) -> None:
    conf = configured(seed=3, flops=2e13, input_share=0.05, speed_spread=0.0, overlap=1.0, compile_seconds=40.0)
    events = list(read(journal(conf, tmp_path / NAME)))

    found = profile(events)

    found.precision = "fp32"  # a simulated journal has none
    guess = calibrated(SimulatedConf(workers=3), found)
    figures, images = cost(start("resnet50_v1")), (1_281_167, 50_000)
    there, here = (pace(each, figures, 256, 1.0, *images) for each in (conf.cluster, guess))  # type: ignore[arg-type]
    assert here.busy_seconds == pytest.approx(there.busy_seconds, rel=0.02)
    assert here.validation_seconds == pytest.approx(there.validation_seconds, rel=0.05)
    assert guess.input_share == pytest.approx(0.05, rel=0.02)
    assert found.attempts == sum(isinstance(event, TrialPrepared) for event in events)


def test_profile_separates_exchange_from_computing(tmp_path: Path) -> None:
    """One slow link without overlap: its figures are found, and the exchange of a simulation has the measured share."""
    links = [LinkConf(0, 5e-4, 2e10)]
    conf = configured(seed=3, flops=2e13, step_seconds=0.05, speed_spread=0.0, overlap=0.0, links=links)
    real = as_if_real(journal(conf, tmp_path / "simulated.jsonl"), tmp_path / "real")

    guess = calibrated(SimulatedConf(workers=3), profile_of(str(real), str(tmp_path)))
    again = journal(replace(configured(seed=4), cluster=guess), tmp_path / "again.jsonl")

    assert guess.overlap == 0
    figures, images = cost(start("resnet50_v1")), (1_281_167, 50_000)
    there, here = (pace(each, figures, 256, 1.0, *images) for each in (conf.cluster, guess))  # type: ignore[arg-type]
    assert here.communication_seconds == pytest.approx(there.communication_seconds, rel=0.02)
    assert here.busy_seconds == pytest.approx(there.busy_seconds, rel=0.02)
    first, second = (_exchange_share(path) for path in (real, again))
    assert first > 0.03
    assert second == pytest.approx(first, abs=0.02)


def _exchange_share(path: Path) -> float:
    kept = work_log(read(path))
    return next(
        line.share
        for line in time_breakdown(accelerator_time(kept, window(kept))).lines
        if line.name == "communication"
    )


def test_profile_without_exchange_has_a_link_of_no_cost(tmp_path: Path) -> None:
    conf = configured(seed=3, accelerators=1)
    real = as_if_real(journal(conf, tmp_path / "simulated.jsonl"), tmp_path / "real")

    (link,) = calibrated(SimulatedConf(workers=3), profile_of(str(real), str(tmp_path))).links

    assert (link.latency_seconds, link.bytes_per_second) == (0.0, 1e18)


def test_calibrated_cluster_predicts_its_run_within_3_percent(tmp_path: Path) -> None:
    conf = configured(seed=3, flops=2e13, step_seconds=0.05, input_share=0.05, compile_seconds=120.0)
    real = as_if_real(journal(conf, tmp_path / "simulated.jsonl"), tmp_path / "real")

    guess = calibrated(SimulatedConf(workers=3), profile_of(str(real), str(tmp_path)))
    again = journal(replace(configured(seed=4), cluster=guess), tmp_path / "again.jsonl")

    first, second = (score(work_log(read(path))).flops_per_second for path in (real, again))
    assert first is not None
    assert second == pytest.approx(first, rel=0.03)


def test_a_profile_of_a_simulated_run_is_refused(tmp_path: Path) -> None:
    path = journal(configured(hours=0.5), tmp_path / NAME)

    with pytest.raises(BadConfiguration, match="simulated"):
        profile_of(str(path.parent), str(tmp_path))


@pytest.mark.parametrize(("start", "ceiling"), [("resnet50_v1", 448), ("resnet50_v1_5", None)])
def test_profile_workers_report_the_measured_ceiling(start: str, ceiling: int | None, tmp_path: Path) -> None:
    real = as_if_real(journal(configured(hours=0.5, ceiling=448), tmp_path / "simulated.jsonl"), tmp_path / "real")

    opening = open_run(replace(configured(hours=0.5, profile=str(real)), start=start))

    assert opening.conf.ceiling == ceiling
    assert opening.conf.bytes_per_element == 4
    assert opening.first.config["cluster"]["ceiling"] == ceiling


def as_if_real(path: Path, folder: Path) -> Path:
    """Return the same journal without the simulation mark and with a real precision, as a profile requires."""
    import msgspec

    from aiperf.journal.journal import Journal

    folder.mkdir()
    events = list(read(path))
    first = events[0]
    assert isinstance(first, RunStarted) and any(isinstance(event, Progress) for event in events)
    with Journal(folder / NAME) as written:
        written.append(
            [
                msgspec.structs.replace(first, simulated=False),
                *(
                    msgspec.structs.replace(event, precision="fp32") if isinstance(event, TrialPrepared) else event
                    for event in events[1:]
                ),
            ]
        )
    return folder
