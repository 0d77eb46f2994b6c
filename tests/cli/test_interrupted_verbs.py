"""Ctrl-C at any moment of any verb, typed at a real terminal: a short message, status 130, and no incomplete file.

Each verb first runs to its end, to measure its time and to list its files. Then it is interrupted at shares of that time. Every
file with a final name must then equal the file of the complete execution.
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
from tests.builders.data_set import make
from tests.builders.submission import key_file
from tests.rigs.processes import comes_true
from tests.rigs.user import CTRL_C, Terminal

END_SECONDS = 120.0
"""Limit on a busy machine."""
SIMULATED = (
    "+cluster=simulated cluster.workers=16 cluster.accelerators=1 cluster.flops=2e9 dataset=synthetic dataset.image=8 "
    "dataset.channels=1 dataset.training_images=400 dataset.validation_images=100 start=digits_small budget.batch=8 "
    "searcher=random hpo=off schedule.warmup_seconds=100 schedule.epochs=[2]"
)
P100 = Path(__file__).parents[2] / "examples/hpl/p100.yaml"
TOP500 = Path(__file__).parents[1] / "scaling/top500_2019_06.csv"
TIMELINE = Path(__file__).parents[1] / "train/tracing/horovod_two_ranks.json"
ANNOUNCED = f"{SIMULATED} schedule.duration_seconds=600"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the files that may be left unfinished."""

    words: str
    """Words after `python -m aiperf`. RUN, OTHER and SET are in the parent folder. Output goes into the working folder."""
    grows: str = "$."
    """Pattern of files that grow line by line. An incomplete one is valid, since the next call continues it."""
    varies: str = "$."
    """Pattern of files that contain times, so that no two are equal."""


COMMANDS = {
    "score": Command("score ../RUN --json"),
    "report": Command("report ../RUN --out out"),
    "status": Command("status ../RUN"),
    "check": Command("check ../RUN --division quick"),
    "verify": Command("verify ../RUN"),
    "rank": Command("rank ../RUN ../OTHER --out out"),
    "breakdown": Command(f"breakdown --timeline {TIMELINE}"),
    "scale": Command("scale ../ONE ../TWO"),
    "standing": Command(f"standing ../OTHER --list {TOP500}"),
    "compare": Command("compare ../RUN ../OTHER"),
    "export csv": Command("export ../RUN --to csv --out out"),
    "export mlflow": Command("export ../OTHER --to mlflow --out out"),
    "export optuna": Command("export ../RUN --to optuna --out out", varies=r"out/.*"),
    "export tensorboard": Command("export ../RUN --to tensorboard --out out", grows=r"out/.*"),
    "flops": Command("flops resnet50_v1"),
    "morph": Command("morph resnet20 --steps 12 --out grown.json --lineage lineage.json --draw grown.svg"),
    "prepare": Command(
        "prepare dataset=images dataset.root=../SET dataset.image=32 --checksums sums.jsonl --pack shards",
        grows=r"sums\.jsonl|shards/.*",
    ),
    "preflight": Command("preflight dataset=digits"),
    "announce": Command(
        f"announce {ANNOUNCED} --key ../key --log log.jsonl --nonce-by SHA256:{43 * 'a'}", varies=r"log\.jsonl"
    ),
    "submit": Command("submit ../OTHER --out bundle.tar.gz"),
    "inspect": Command("inspect ../bundle.tar.gz"),
    "topology": Command("topology torus:32x32 --link 83.7e9 --network resnet50_v1_5"),
    "hpl": Command(f"hpl predict {P100} --nb 384 --out out"),
    "bops": Command("bops peak --no-memory"),
    "roofline": Command(
        "roofline resnet50_v1_5 --device 'NVIDIA A100-SXM4-80GB' --precision bf16 --batch 256 --out out"
    ),
    "completion": Command("completion --line 'aiperf-cluster report '"),
    "rehearse": Command(f"rehearse {SIMULATED} schedule.duration_seconds=1800", varies=r"runs/rehearsal/rehearsal\..*"),
    "help": Command("--help"),
    "version": Command("--version"),
    "cfg": Command("--cfg job"),
    "dry run": Command("dry_run=true"),
    "simulated run": Command(f"{SIMULATED} schedule.duration_seconds=3600 runs=runs name=a", grows=r"runs/.*"),
}
MOMENTS = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.96]
"""Shares of the time of a complete execution."""
ELSEWHERE = {
    "predict": "a run, which is interrupted as every run, then simulations as in rehearse",
    "sweep": "runs: tests/cli/test_sweep.py",
    "quality": "writes no file, and needs a checkpoint: tests/verify/test_quality.py",
    "drive": "a run: tests/drive/test_interrupted.py",
    "witness": "adds a line to the log as announce does, and needs an announced run: tests/submission/test_witnessed.py",
    "join": "a node of a run: tests/cluster",
}
"""Verbs with an interruption test in another folder."""


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
        for ranks, name in ((1, "ONE"), (2, "TWO")):
            options = ANNOUNCED.replace("cluster.accelerators=1", f"cluster.accelerators={ranks}")
            assert main(shlex.split(f"{options} runs=runs name={name}")) == 0
            next(Path("runs").glob(f"*-{name}")).rename(name)
        assert main(["submit", "OTHER", "--out", "bundle.tar.gz"]) == 0
    finally:
        os.chdir(before)
    make(place / "SET", training=300, validation=60)
    key_file(place)
    return place


def written(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, including hidden ones."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def named(name: str) -> str:
    """Return the name of a file without the time in the name of a run."""
    return re.sub(r"\d{8}-\d{6}-", "", name)


@dataclass(frozen=True, slots=True)
class CompleteExecution:
    """A complete execution."""

    seconds: float
    files: Mapping[str, bytes]


def execute(command: Command, folder: Path) -> CompleteExecution:
    """Execute a command in a new folder."""
    folder.mkdir()
    began = time.monotonic()
    with Terminal(shlex.split(command.words), folder) as terminal:
        assert terminal.wait(END_SECONDS), terminal.text[-2000:]
        assert terminal.process.returncode in (0, 1), terminal.text[-2000:]
        assert "Traceback" not in terminal.text
        seconds = time.monotonic() - began
    return CompleteExecution(seconds, {named(name): content for name, content in written(folder).items()})


def faults_after_interrupt(command: Command, complete: CompleteExecution, part: float, folder: Path) -> list[str]:
    """Return the faults of a command that is interrupted after a share of its time."""
    folder.mkdir()
    faults = []
    with Terminal(shlex.split(command.words), folder) as terminal:
        has_ended = terminal.wait(complete.seconds * part)
        is_ours = terminal.is_ours_to_answer()
        if not has_ended:
            terminal.type(CTRL_C)
        began = time.monotonic()
        if not terminal.wait(END_SECONDS):
            return [f"it ran for another {END_SECONDS:.0f} s"]
        took = time.monotonic() - began
        status = terminal.process.returncode
        if is_ours and not has_ended:
            if status != 130:
                faults.append(f"status {status}, {took:.1f} s after")
            if took > max(2.0, complete.seconds / 2):
                faults.append(f"it ran for another {took:.1f} s")
            faults += [f"it printed {words}" for words in ("Traceback", "Exception ignored") if words in terminal.text]
        if not comes_true(lambda: not terminal.left(), 20.0):
            faults.append(
                f"it left processes: {[Path(f'/proc/{pid}/cmdline').read_bytes() for pid in terminal.left()]}"
            )
        output = terminal.text
    for name, content in written(folder).items():
        name_without_time = named(name)
        if re.fullmatch(command.grows, name_without_time):
            continue
        if name_without_time not in complete.files:
            faults.append(f"it left {name}")
        elif content != complete.files[name_without_time] and not re.fullmatch(command.varies, name_without_time):
            faults.append(f"{name} differs from that of a complete execution")
    return [f"at {part:.2f} of {complete.seconds:.1f} s: {each}" for each in faults] + (
        [output[-3000:]] if faults else []
    )


def interrupted(name: str, parts: list[float], place: Path) -> list[str]:
    """Return the faults of a command that is interrupted at each of these shares of its time."""
    command, faults = COMMANDS[name], list[str]()
    folder = place / "here"
    shutil.rmtree(folder, ignore_errors=True)  # of a command that failed
    complete = execute(command, folder)
    shutil.rmtree(folder)
    for part in parts:
        faults += faults_after_interrupt(command, complete, part, folder)
        shutil.rmtree(folder)
    return faults


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
