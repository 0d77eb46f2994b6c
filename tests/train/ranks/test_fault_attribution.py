"""Heartbeats, and the rank that is blamed if they are missing, with ranks as values and as real processes."""

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.dataset_config import SyntheticConf
from aiperf.errors import BadConfiguration
from aiperf.train.heartbeat import ON_DEVICE, OPEN_ENDED, HeartbeatFile, RankHeartbeat, Stage
from aiperf.train.ranks.hang_watch import ProcessProgress, Watch
from aiperf.train.ranks.host_ranks import ALLOCATOR, RankProcess
from aiperf.train.ranks.protocol import FailureReport, RankStatus, Recipe, Setup, seats
from aiperf.train.ranks.started_group import culprit, failure, is_clear
from aiperf.train.trainer_config import PEER_SECONDS, TrainerConf
from tests.builders.rendezvous import on_one_host


def test_a_rank_is_overdue_only_after_the_silence_it_announced(tmp_path: Path) -> None:
    heartbeats = HeartbeatFile(tmp_path / "heartbeats", 2, create=True)
    heartbeats.beat(0, 5, Stage.STEPS, 1000.0)
    heartbeats.beat(1, 4, Stage.STEPS, -1.0)

    assert heartbeats.overdue(time.monotonic()) == (1,)
    assert heartbeats.steps() == (5, 4)
    heartbeats.beat(1, 5, Stage.IDLE, math.inf)
    assert heartbeats.overdue(1e12) == (0,)


RANKS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(7, 9),
        st.integers(3, 4),
        st.sampled_from([Stage.STEPS, Stage.JOIN, Stage.BUILD, Stage.WEIGHTS, Stage.INPUT, Stage.IDLE]),
        st.booleans(),
    ),
    min_size=2,
    max_size=4,
)


@given(RANKS)
def test_the_late_rank_without_progress_is_blamed(
    ranks: list[tuple[bool, int, int, Stage, bool]],
) -> None:
    """State of each rank.

    Whether it is overdue, its number of exchanges, step and stage, and whether its process makes progress.
    """
    with TemporaryDirectory() as folder:
        heartbeats = HeartbeatFile(Path(folder) / "heartbeats", len(ranks), create=True)
        for rank, (is_overdue, meetings, step, stage, _) in enumerate(ranks):
            silent = math.inf if stage is Stage.IDLE else -1.0 if is_overdue else 1000.0
            heartbeats.beat(rank, step, stage, silent)
            for _ in range(meetings):
                heartbeats.meet(rank)
        statuses = [RankStatus(rank, quiet_seconds=-2.0 if moves else 2000.0) for rank, (*_, moves) in enumerate(ranks)]
        now = time.monotonic()
        watch = Watch(heartbeats)
        early, found, late = (watch.hung(statuses, 60.0, now + after) for after in (-2.0, 0.0, 1010.0))

    at_work = [rank for rank, (_, _, _, stage, _) in enumerate(ranks) if stage is not Stage.IDLE]
    fewest = min((ranks[rank][1] for rank in at_work), default=0)
    behind = [rank for rank in at_work if ranks[rank][1] == fewest]
    still = [rank for rank in behind if not (ranks[rank][3] in OPEN_ENDED and ranks[rank][4])]
    suspects = [rank for rank in still if ranks[rank][0]]
    assert early is None, "their time is not over yet"
    assert (found is None) == (not suspects)
    assert (late is None) == (not still), "who neither does anything nor is behind anybody is not waited for for ever"
    if found is not None:
        rank, how = found
        stage, step = ranks[rank][3], ranks[rank][2]
        assert rank in suspects
        assert f"at step {step}" in how if stage is Stage.STEPS else stage.doing in how
        assert how.startswith("waits for storage") == (stage in (Stage.WEIGHTS, Stage.INPUT))


def test_a_waiting_rank_gets_a_new_deadline(tmp_path: Path) -> None:
    heartbeats = HeartbeatFile(tmp_path / "heartbeats", 2, create=True)
    watch = Watch(heartbeats)
    now = time.monotonic()
    heartbeats.beat(0, 7, Stage.STEPS, 30.0)
    heartbeats.meet(0)
    heartbeats.beat(1, 7, Stage.INPUT, 30.0)

    def looked(after: float) -> tuple[int, str] | None:
        return watch.hung([RankStatus(0), RankStatus(1)], 60.0, now + after)

    assert looked(1.0) is None
    assert looked(500.0) is None  # images come slowly, and 0 waits for 1
    heartbeats.meet(1)
    assert looked(500.2) is None  # the exchange has begun just now
    assert looked(529.0) is None
    assert looked(531.0) == (0, "hangs: no sign of life within the time it had announced, at step 7")


@pytest.mark.parametrize("on_accelerators", [False, True])
@pytest.mark.parametrize("stage", list(Stage))
def test_a_spinning_wait_for_a_device_has_a_limit(on_accelerators: bool, stage: Stage, tmp_path: Path) -> None:
    """The process looks busy all the time."""
    heartbeats = HeartbeatFile(tmp_path / "heartbeats", 1, create=True)
    watch = Watch(heartbeats, on_accelerators=on_accelerators)
    now = time.monotonic()
    heartbeats.beat(0, 7, stage, 300.0)

    def looked(after: float) -> tuple[int, str] | None:
        return watch.hung([RankStatus(0)], 60.0, now + after)

    looked(0.0)
    is_limited = stage in ON_DEVICE and on_accelerators
    if stage in OPEN_ENDED:
        assert looked(2999.0) is None
        found = looked(3002.0)
        assert (found is not None) == is_limited
        assert found is None or "more than 10 × trainer.start_seconds" in found[1]


START_SECONDS = 300.0


@pytest.mark.parametrize("longest", [0.0, 20.0, 200.0])
@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.IDLE])
def test_a_device_that_does_not_answer_hangs_in_any_stage(stage: Stage, longest: float, tmp_path: Path) -> None:
    """The process looks busy, and enters its stage again and again, as one that waits for its checkpoint does."""
    heartbeats = HeartbeatFile(tmp_path / "heartbeats", 1, create=True)
    watch = Watch(heartbeats, on_accelerators=True, start_seconds=START_SECONDS)
    heartbeats.enter(0, stage, math.inf)
    now, limit = time.monotonic(), max(2 * START_SECONDS, 10 * longest)

    def looked(after: float) -> tuple[int, str] | None:
        return watch.hung([RankStatus(0)], 60.0, now + after)

    assert looked(0.0) is looked(10 * limit) is None, "it waits for a file server, and not for the device"
    heartbeats.wait(0, now, longest)
    assert looked(limit - 1) is None
    found = looked(limit + 1)
    assert found is not None and f"its accelerator has not answered for {limit + 1:.0f} s" in found[1]
    heartbeats.wait(0, 0.0, longest)
    assert looked(limit + 2) is None


def test_waits_of_two_threads_for_a_device_are_one(tmp_path: Path) -> None:
    """The one that began first counts, and another host reads the same."""
    file = HeartbeatFile(tmp_path / "heartbeats", 2, create=True)
    rank = RankHeartbeat(file, 1)
    there = HeartbeatFile(tmp_path / "there", 2, create=True)

    with rank.device_wait():
        first = file.device_wait(1)[0]
        with rank.device_wait():
            assert file.device_wait(1)[0] == first <= time.monotonic()
        time.sleep(0.05)
        now = time.monotonic()
        there.copy(1, file.sign(1, now), now + 1000.0)
        assert there.device_wait(1)[0] == pytest.approx(first + 1000.0)

    since, longest = file.device_wait(1)
    assert since == math.inf and longest >= 0.05
    assert file.device_wait(0) == (math.inf, 0.0)


def test_ranks_compile_on_their_share_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with FP fusion as Triton 3.9 has it, and segments that grow, unless the user has set them."""
    started: list[dict[str, str]] = []

    def popen(*words: object, env: dict[str, str], **more: object) -> SimpleNamespace:
        started.append(env)
        return SimpleNamespace(pid=0)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(RankProcess, "send", lambda self, message: None)
    for name in (*ALLOCATOR, "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "32")
    bystander(0, tmp_path)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    bystander(1, tmp_path)

    assert [each["TORCHINDUCTOR_COMPILE_THREADS"] for each in started] == ["1", "1"]
    assert [each["TRITON_DEFAULT_FP_FUSION"] for each in started] == ["1", "0"]
    logs = [(each.get("NCCL_DEBUG"), each.get("NCCL_DEBUG_FILE")) for each in started]
    assert logs == [("INFO", str(tmp_path / "rank-0.nccl")), ("WARN", None)]
    assert [each.get("PYTORCH_ALLOC_CONF") for each in started] == ["expandable_segments:True", None]


def bystander(rank: int, folder: Path) -> RankProcess:
    """A rank's real process, as far as it comes without a group: it waits for its orders' world."""
    heartbeats = folder / "heartbeats"
    if not heartbeats.exists():
        HeartbeatFile(heartbeats, 2, create=True)
    recipe = Recipe(TrainerConf(), SyntheticConf(), "{}", folder, 2, 0)
    setup = Setup(recipe, seats([[None, None]])[rank], 2, 1, heartbeats, folder / "meeting")
    return RankProcess(setup, {}, folder / f"rank-{rank}.log")


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("is_peer", [False, True])
def test_a_killed_rank_is_blamed_before_a_failed_one(tmp_path: Path, victim: int, is_peer: bool) -> None:
    """The other rank's error may come from the middle of a backward pass.

    Its text then does not identify a lost peer.
    """
    ranks = [bystander(rank, tmp_path) for rank in range(2)]
    heartbeats = HeartbeatFile(tmp_path / "heartbeats", 2)
    os.kill(ranks[victim].pid, signal.SIGKILL)
    os.waitid(os.P_PID, ranks[victim].pid, os.WEXITED | os.WNOWAIT)
    seen = [rank.look(heartbeats, time.monotonic()) for rank in ranks]
    seen[1 - victim] = replace(seen[1 - victim], failed=FailureReport("something within backward", is_peer=is_peer))

    assert is_clear(seen)
    blamed = culprit(seen, heartbeats.meetings())

    assert blamed.rank == victim
    assert "SIGKILL" in failure(blamed, "it").reason
    for rank in ranks:
        rank.kill()
        assert rank.has_gone(60.0)


def test_no_rank_is_blamed_if_all_report_a_lost_peer() -> None:
    noticed = RankStatus(0, failed=FailureReport("the exchange broke", is_peer=True))

    assert not is_clear([noticed, RankStatus(1)])  # the kernel is still at ending the other
    assert is_clear([noticed, RankStatus(1, has_ended=True, signal=signal.SIGKILL)])


@pytest.mark.parametrize("does", ["computes", "waits for a child", "sleeps"])
def test_progress_of_a_process_is_seen_and_sleep_is_quiet(does: str, tmp_path: Path) -> None:
    computes = "print('begins', flush=True)\nwhile True: pass"
    program = {
        "computes": computes,
        "waits for a child": f"import subprocess, sys; subprocess.run([sys.executable, '-c', {computes!r}])",
        "sleeps": "import time; print('begins', flush=True)\nwhile True: time.sleep(0.2)",
    }[does]
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"begins\n"
        progress = ProcessProgress(process.pid, 0.0)
        for look in range(1, 40):
            time.sleep(0.02)
            progress.look(Stage.JOIN, -1000.0, float(look))

        assert (progress.quiet_for(40.0) > 20.0) == (does == "sleeps")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_library_timeouts_exceed_the_deadlines_of_groups() -> None:
    """Gloo's 30 s struck before our 60: the rank that waited was blamed for the one that was stopped."""
    environment = on_one_host(0, 2, port=1)

    assert float(environment["HOROVOD_GLOO_TIMEOUT_SECONDS"]) == PEER_SECONDS
    assert environment["HOROVOD_STALL_CHECK_DISABLE"] == "1"
    for option in ("hang_seconds", "start_seconds"):
        with pytest.raises(BadConfiguration, match=rf"trainer\.{option} is (above 0 and )?at most"):
            TrainerConf(**{option: PEER_SECONDS / 9})  # type: ignore[arg-type]
