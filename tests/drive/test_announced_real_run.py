"""Real run from its announcement to the receiver's verdict.

It is ended early, and resumed under the same announcement.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf.__main__ import main
from aiperf.config import RunConf, configure
from aiperf.drive.driver import Driver
from aiperf.drive.machines import machines
from aiperf.drive.session import resumable, resume, run_session
from aiperf.errors import NotAsAnnounced
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.submission.announced_run import announcement, as_announced
from aiperf.submission.announcement_file import add
from aiperf.submission.inspect_run import Requirements
from aiperf.submission.inspect_submission import inspect
from aiperf.submission.signatures import read_allowed
from morphism import encode
from tests.builders.order import plain_graph
from tests.builders.submission import allowed_file, fingerprint, give_nonce, key_file
from tests.rigs.executors import TINY


def announced(words: Sequence[str], folder: Path, now: float) -> RunConf:
    """The configuration of a run that names its announcement."""
    by = fingerprint(other := key_file(folder, "other"))
    signed, _ = add(folder / "log", key_file(folder), lambda log: announcement(configure(words), log, now, by))
    give_nonce(folder / "log", signed.id, other, now)
    return as_announced(configure([*words, f"announcement={signed.id}", f"announcement_log={folder / 'log'}"]))


PAGE = Path(__file__).parents[2] / "docs/ranking.md"
SIMULATED = ["+cluster=simulated", "cluster.workers=2", "dataset=imagenet", "system.site=A", "system.name=a"]
RUNS = {
    "ranking": [*SIMULATED, "schedule=ranking", "schedule.duration_seconds=7200"],
    "fixed network": [*SIMULATED, "benchmark=hpc_ai500_ic", "schedule.epochs=[2]"],
}
REAL_RUNS = {
    "as printed": ["system.site=A", "system.name=alpha"],
    "fixed network": [
        "benchmark=hpc_ai500_ic", "dataset=digits", "benchmark.target_quality=0.2", "schedule.epochs=[2]", "batch.default=64",
        "trainer.warmup_epochs=1", "system.site=A", "system.name=a",
    ],
}  # fmt: skip


@pytest.mark.parametrize("words", RUNS.values(), ids=RUNS)
def test_a_simulated_run_goes_the_whole_way_to_a_list(words: list[str], tmp_path: Path) -> None:
    _go_to_a_list(words, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("words", REAL_RUNS.values(), ids=REAL_RUNS)
def test_a_real_run_goes_the_whole_way_to_a_list(words: list[str], tmp_path: Path) -> None:
    assert _go_to_a_list(words, tmp_path)["witnessed"] > 0.9


def in_shell(command: str, folder: Path) -> str:
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=os.environ | path, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def _go_to_a_list(words: list[str], tmp_path: Path) -> dict[str, Any]:
    """Return the entry of the list. The commands are those of the first block of docs/ranking.md, in a shell."""
    key_file(tmp_path)  # skips without ssh-keygen
    block = PAGE.read_text().partition("A run of the ranking")[0]
    answers: dict[str, str] = {}
    known: dict[str, str] = {"system.site=A system.name=alpha": " ".join(words)}
    for command in re.findall(r"^    \$ (.*)", block, re.MULTILINE):
        for shown, actual in known.items():
            command = command.replace(shown, actual)
        verb = next(iter(re.findall(r"-m aiperf ([a-z]+) ", command)), "run")
        json_too = " --json" if verb in ("inspect", "rank") else ""
        answers[verb] = in_shell(command.partition("  #")[0] + json_too, tmp_path)
        if verb == "announce" and "c45464d5e5dd…" not in known:
            known["c45464d5e5dd…"] = re.findall(r"^announced +(\w{64})$", answers[verb], re.MULTILINE)[0]
        elif verb == "run" and (tmp_path / "runs").exists():
            known["20261129-235601-digits"] = next((tmp_path / "runs").iterdir()).name
    (judged,), ranked = json.loads(answers["inspect"])["submissions"], json.loads(answers["rank"])

    assert judged["is_good"] and judged["announced"]["published"] == 1
    (row,) = (row for each in ranked["lists"] for row in each["rows"])
    assert (row["place"], row["why_not"]) == (1, "")
    entry: dict[str, Any] = row["entry"]
    return entry


@pytest.mark.slow
def test_a_real_run_is_announced_resumed_submitted_and_valid(tmp_path: Path) -> None:
    (tmp_path / "start.json").write_text(encode(plain_graph()))
    words = [*TINY, "executor=inline", f"runs={tmp_path / 'runs'}", f"start={tmp_path / 'start.json'}"]
    conf = announced([*words, "schedule.duration_seconds=3600"], tmp_path, now=1_000_000.0)

    def end_after(trials: int, driver: Driver) -> None:
        driver.interrupted = driver.run.finished >= trials

    with machines(conf) as executor_of:
        folder = run_session(make_plan(conf, this_machine(conf)), executor_of, lambda driver: end_after(1, driver))
        with pytest.raises(NotAsAnnounced, match=f"was used by run '{folder.name}'"):
            as_announced(conf)
        with pytest.raises(NotAsAnnounced, match=f"was used by run '{folder.name}'"):  # one that came in between
            run_session(make_plan(conf, this_machine(conf)), executor_of, lambda _: None, tmp_path / "second")
        resume(resumable(replace(conf, resume=str(folder))), executor_of, lambda driver: end_after(2, driver))
    status = main(["submit", str(folder), "--key", str(tmp_path / "key"), "--out", str(tmp_path / "bundle")])
    signers = read_allowed(allowed_file(tmp_path, site=tmp_path / "key", other=tmp_path / "other"))
    found = inspect(tmp_path / "bundle", Requirements(signers))

    told = {(finding.check, finding.outcome) for finding in found.findings}
    assert status == 0
    assert found.is_good
    assert found.announced is not None
    assert found.announced.words == "1 of 1 announced runs published"
    assert not (tmp_path / "second").exists()
    assert told >= {("source", "good"), ("verify", "good"), ("signature", "good"), ("announced", "good")}
    assert "resumed 1 times" in {finding.text for finding in found.findings}
