"""Candidates of completion, from the program and in real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.cli.arguments import VERBS
from aiperf.cli.verbs.tools.completion import SHELLS, candidates
from aiperf.config import option_names
from tests.rigs.user import User

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two runs, one of them under runs/."""
    for run in ("runs/20261122-120000-digits", "another run"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "journal.jsonl").write_text("")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sco", ["score "]),
        ("schedule=", ["schedule=hour ", "schedule=quick ", "schedule=ranking "]),
        ("schedule.warm", ["schedule.warmup_rounds=", "schedule.warmup_seconds="]),
        ("sch", ["schedule.", "schedule="]),
        ("+clu", ["+cluster="]),
        ("+cluster=sl", ["+cluster=slurm "]),
        ("+cluster=slurm cluster.part", ["cluster.partition="]),
        ("cluster.part", []),
        ("dataset=digits dry", ["dry_run="]),
        ("--cfg ", ["job "]),
        ("score --j", ["--json "]),
        ("flops resnet18", ["resnet18 "]),
        ("completion z", ["zsh "]),
        ("help sco", ["score "]),
        ("help trainer.mom", ["trainer.momentum "]),
        ("score runs/", ["runs/20261122-120000-digits "]),
        ("score 2026", []),
        ("resume=runs/", ["resume=runs/20261122-120000-digits "]),
        ("prepare dataset=im", ["dataset=imagenet ", "dataset=images "]),
    ],
)
def test_the_end_of_a_line_is_completed(runs: Path, line: str, offered: list[str]) -> None:
    *before, last = line.split(" ")

    assert candidates(before, last) == sorted(offered)


def test_first_words_complete_to_verbs_and_parts_to_options(runs: Path) -> None:
    first = candidates([], "")

    assert {f"{verb} " for verb in VERBS} <= set(first)
    for part in ("trainer", "schedule", "limits"):
        offered = {each.rstrip("=") for each in candidates([], f"{part}.")}
        assert offered == {name for name in option_names() if name.startswith(f"{part}.")}


def test_runs_are_offered_by_their_paths_as_a_shell_takes_them(runs: Path) -> None:
    offered = candidates(["score"], "")

    assert "'another run' " in offered
    assert "runs/" in offered


def _shell(name: str, lines: str, folder: Path) -> str:
    """Return the output of a shell with aiperf-cluster on its path."""
    program = folder / "bin" / "aiperf-cluster"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c \'import sys; sys.argv[0] = "aiperf-cluster"\n'
        'from aiperf.__main__ import script\nscript()\' "$@"\n'
    )
    program.chmod(0o755)
    (folder / "completion").write_text(SHELLS[name])
    words = {"bash": ["bash", "--norc", "-c"], "zsh": ["zsh", "-f", "-c"], "fish": ["fish", "--no-config", "-c"]}[name]
    answer = subprocess.run(
        [*words, lines],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(PROJECT),
            "HOME": str(folder),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert answer.stderr == ""
    return answer.stdout


def test_bash_completes_by_the_words_after_the_last_equals_sign(runs: Path) -> None:
    interpreter = runs / "python"  # its own path may have a space, at which this test would split it
    interpreter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    interpreter.chmod(0o755)
    asked = """
source completion
ask() {
  COMP_LINE="$1" COMP_POINT=${#1}; COMP_WORDS=($1); COMP_CWORD=1
  _aiperf_cluster "${1%% *}"; printf '<%s>' "${COMPREPLY[@]}"; echo
}
ask "aiperf-cluster sco"
ask "aiperf-cluster schedule="
ask "aiperf-cluster dataset=digits +cluster=si"
ask "aiperf-cluster score runs/"
ask "PYTHON -m aiperf start=x schedule=r"
ask "python script.py sch"
complete -p aiperf-cluster python
""".replace("PYTHON", str(interpreter))

    message = _shell("bash", asked, runs).splitlines()

    assert message[:6] == [
        "<score >",
        "<hour ><quick ><ranking >",
        "<simulated >",
        "<runs/20261122-120000-digits >",
        "<ranking >",
        "<>",
    ]
    assert "_aiperf_cluster aiperf-cluster" in message[6] and "_aiperf_cluster python" in message[7]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_offers_the_same(runs: Path) -> None:
    message = _shell("fish", "source completion; complete -C 'aiperf-cluster schedule='", runs)

    assert message.split() == ["schedule=hour", "schedule=quick", "schedule=ranking"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_by_the_program(runs: Path) -> None:
    # checks the arguments of compadd, since the line editor needs a terminal
    asked = """
compdef() { :; }; compadd() { shift 4; print -l -- "${(@P)1}"; }
eval "$(<completion)"
words=(aiperf-cluster 'schedule='); CURRENT=2
_aiperf_cluster
"""

    message = _shell("zsh", asked, runs)

    assert message.splitlines() == ["schedule=hour ", "schedule=quick ", "schedule=ranking "]


def test_the_scripts_are_printed(aiperf: User) -> None:
    for shell, script in SHELLS.items():
        assert aiperf("completion", shell).out == script
