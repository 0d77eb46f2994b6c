"""Ctrl-C at any moment of any verb, typed at a real terminal: a short answer, status 130, and no file that is half there.

Each verb is first carried out whole, which says how long it takes and what it writes; then it is interrupted at parts of that
time. What lies under a final name afterwards must be as the whole execution wrote it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.cli.arguments import VERBS
from tests.data.folders import make
from tests.drive.terminals import CTRL_C, Terminal
from tests.submission.keys import key_file
from tests.waiting import comes_true

END_SECONDS = 120.0
"""On a machine that does much else."""
SIMULATED = (
    "+cluster=simulated cluster.workers=16 cluster.accelerators=1 cluster.flops=2e9 dataset=synthetic dataset.image=8 "
    "dataset.channels=1 dataset.training_images=400 dataset.validation_images=100 start=digits_small budget.batch=8 "
    "searcher=random hpo=off schedule.warmup_seconds=100 schedule.epochs=[2]"
)
ANNOUNCED = f"{SIMULATED} schedule.duration_seconds=600"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the files that may be left unfinished."""

    words: str
    """After `python -m aiperf`. RUN, OTHER and SET lie in the folder above; what is written goes into the working folder."""
    grows: str = "$."
    """Which files grow line by line by design, so that a part of them is good: what is broken off is gone on with."""
    varies: str = "$."
    """Which files say times of their own, so that no two are equal."""


COMMANDS = {
    "score": Command("score ../RUN --json"),
    "report": Command("report ../RUN --out out --against ../OTHER"),
    "status": Command("status ../RUN"),
    "check": Command("check ../RUN --division quick --junit check.xml"),
    "verify": Command("verify ../RUN"),
    "rank": Command("rank ../RUN ../OTHER --out out"),
    "compare": Command("compare ../RUN ../OTHER"),
    "export csv": Command("export ../RUN --to csv --out out"),
    "export mlflow": Command("export ../OTHER --to mlflow --out out"),
    "export optuna": Command("export ../RUN --to optuna --out out"),
    "export tensorboard": Command("export ../RUN --to tensorboard --out out"),
    "flops": Command("flops resnet50_v1"),
    "morph": Command("morph resnet20 --steps 12 --json grown.json --lineage lineage.json --draw grown.svg"),
    "prepare": Command(
        "prepare dataset=images dataset.root=../SET dataset.image=32 --checksums sums.jsonl --pack shards",
        grows=r"sums\.jsonl|shards/.*",
    ),
    "preflight": Command("preflight dataset=digits"),
    "announce": Command(f"announce {ANNOUNCED} --key ../key --log log.jsonl", varies=r"log\.jsonl"),
    "submit": Command("submit ../OTHER --out bundle.tar.gz"),
    "inspect": Command("inspect ../bundle.tar.gz"),
    "completion": Command("completion --line 'aiperf-cluster report '"),
    "rehearse": Command(f"rehearse {SIMULATED} schedule.duration_seconds=1800", varies=r"runs/rehearsal/rehearsal\..*"),
    "help": Command("--help"),
    "version": Command("--version"),
    "cfg": Command("--cfg job"),
    "dry run": Command("dry_run=true"),
    "simulated run": Command(f"{SIMULATED} schedule.duration_seconds=3600 runs=runs name=a", grows=r"runs/.*"),
}
MOMENTS = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.96]
"""Parts of the time that a whole execution takes."""
ELSEWHERE = {
    "drive": "a run: tests/drive/test_interrupted.py",
    "join": "a node of a run: tests/cluster",
}
"""Verbs that are interrupted in their own folder."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, a data set, a key and a submission."""
    place = tmp_path_factory.mktemp("place")
    before = Path.cwd()
    os.chdir(place)
    try:
        for seed, name in enumerate(("RUN", "OTHER")):
            words = shlex.split(f"{SIMULATED} schedule.duration_seconds=1800 seed={seed} runs=runs name={name}")
            assert main(words) == 0
            next(Path("runs").glob(f"*-{name}")).rename(name)
        assert main(["submit", "OTHER", "--out", "bundle.tar.gz"]) == 0
    finally:
        os.chdir(before)
    make(place / "SET", training=300, validation=60)
    key_file(place)
    return place


def written(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def named(name: str) -> str:
    """A file's name, where it is a run's without the run's time."""
    return re.sub(r"\d{8}-\d{6}-", "", name)


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete execution."""

    seconds: float
    files: Mapping[str, bytes]


def carried_out(command: Command, folder: Path) -> Whole:
    """Carries it out in a new folder."""
    folder.mkdir()
    began = time.monotonic()
    with Terminal(shlex.split(command.words), folder) as terminal:
        assert terminal.wait(END_SECONDS), terminal.text[-2000:]
        assert terminal.process.returncode in (0, 1), terminal.text[-2000:]
        assert "Traceback" not in terminal.text
        seconds = time.monotonic() - began
    return Whole(seconds, {named(name): content for name, content in written(folder).items()})


def faults_of(command: Command, whole: Whole, part: float, folder: Path) -> list[str]:
    """What is wrong with how it ends when it is interrupted after a part of its time."""
    folder.mkdir()
    found = []
    with Terminal(shlex.split(command.words), folder) as terminal:
        has_ended = terminal.wait(whole.seconds * part)
        is_ours = terminal.is_ours_to_answer()
        if not has_ended:
            terminal.type(CTRL_C)
        began = time.monotonic()
        if not terminal.wait(END_SECONDS):
            return [f"it went on for {END_SECONDS:.0f} s"]
        took = time.monotonic() - began
        status = terminal.process.returncode
        if is_ours and not has_ended:
            if status != 130:
                found.append(f"status {status}, {took:.1f} s after")
            if took > max(2.0, whole.seconds / 2):
                found.append(f"it went on for {took:.1f} s")
            found += [f"it said {words}" for words in ("Traceback", "Exception ignored") if words in terminal.text]
        if not comes_true(lambda: not terminal.left(), 20.0):
            found.append(f"it left processes: {[Path(f'/proc/{pid}/cmdline').read_bytes() for pid in terminal.left()]}")
        said = terminal.text
    for name, content in written(folder).items():
        plain = named(name)
        if re.fullmatch(command.grows, plain):
            continue
        if plain not in whole.files:
            found.append(f"it left {name}")
        elif content != whole.files[plain] and not re.fullmatch(command.varies, plain):
            found.append(f"{name} is another than that of a whole execution")
    return [f"at {part:.2f} of {whole.seconds:.1f} s: {each}" for each in found] + ([said[-3000:]] if found else [])


def interrupted(name: str, parts: list[float], place: Path) -> list[str]:
    """What is wrong with how a command ends, interrupted at each of these parts of its time."""
    command, found = COMMANDS[name], []
    here = place / "here"
    whole = carried_out(command, here)
    shutil.rmtree(here)
    for part in parts:
        found += faults_of(command, whole, part, here)
        shutil.rmtree(here)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_every_verb_at_any_moment(name: str, place: Path) -> None:
    assert interrupted(name, MOMENTS, place) == []


@pytest.mark.parametrize(("name", "part"), [("morph", 0.8), ("help", 0.5)])
def test_ctrl_c_ends_verbs_that_need_no_run(name: str, part: float, tmp_path: Path) -> None:
    assert interrupted(name, [part], tmp_path) == []


def test_every_verb_is_interrupted_here_or_elsewhere() -> None:
    assert {name.partition(" ")[0] for name in COMMANDS} >= VERBS.keys() - ELSEWHERE.keys()
    assert ELSEWHERE.keys() <= VERBS.keys()
