"""Command blocks of the documents: every command of this repository is parsed, and those without a cluster are executed.

Not checked: lines of other programs (git, ssh-keygen, jq, kubectl, podman, pip, cp), outputs, formulas and file formats.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import aiperf
import aiperf.page.figure  # a report of these tests then draws nothing: conftest.py
from aiperf.__main__ import main
from aiperf.cli.arguments import VERBS, run_options_of, verb_module
from aiperf.cli.arguments import execute as execute_verb
from aiperf.config import configure, require_options
from tests.builders.forged_journal import lines_of, write

PROJECT = Path(__file__).parent.parent
PAGES = sorted(
    [*(PROJECT / name for name in ("README.md", "CONTRIBUTING.md")), *(PROJECT / "docs").glob("*.md")],
)
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (PROJECT / "Makefile").read_text(), re.MULTILINE))

PLACEHOLDERS = {
    r"\[GROUP=CHOICE …\] ": "",
    r"\[(--[^\]]*|dataset\.root=\w+|OPTION=\w+ …)\]": r"\1",  # may be left out
    r"\bOPTION=VALUE …": "seed=1",
    r"(--sample|--retrain) N\b": r"\1 1",
    r"\bhelp OPTION\|GROUP\|VERB": "help seed",
    r"(?<=\w)(\|--?\w[\w-]*( \w+)?|\|\w+)+": "",  # alternatives: the first
    r"\bRUN_B\b|(?<![\w/.])B\d?\b": "other",
    r"\bRUN(S-OF-\w+|_?\w)?\b|(?<![\w/.])A\d?\b|\bEARLIER\b|\bruns/(?!hpl)[\w.*-]+…?|\b\d{8}-\d{6}-digits(?!\.)": "run",
    r"\S+\.aiperf\.tar\.gz": "run.aiperf.tar.gz",
    r"\bIMAGE\b|\bREGISTRY/aiperf": "registry.example.org/aiperf",
    r"SHA256:…|\$\(ssh-keygen[^)]*\)": "SHA256:" + "A" * 43,
    r"\b(ID|HASH)\b|\b[0-9a-f]{12}…": "a" * 64,
    r"\bHEAD:6379": "10.0.0.1:6379",
    r"\b(FILE|SYSTEM\.yaml|HPL\.out|[\w/]+\.(?:yaml|json|csv))\b…?": "file",
    r"\b(THEIR_KEY|KEY|vendor|site-[ab])\b(?!\.)": "key",
    r"\bFOLDER\b": "folder",
    r" …": "",  # further options
}
"""Words of the documents that stand for something else, and what the tests put there."""


def blocks(page: Path) -> list[str]:
    """Return indented and fenced blocks, with continued lines joined."""
    text = page.read_text().replace("\\\n", " ")
    fenced = re.findall(r"^ *```(?:bash|sh)?\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [*fenced, *re.findall(r"(?:^ {4,}\S.*\n)+", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S), re.M)]


def commands(page: Path, program: str) -> list[str]:
    """Return the words after a program, such as `python -m aiperf`, in each line of the blocks, and in the sentences."""
    lines = [line.strip().removeprefix("$ ") for block in blocks(page) for line in block.splitlines()]
    lines += re.findall(r"`(python -m aiperf[^`]+)`", page.read_text())
    starts = rf"(?:[A-Z_]+=\S+ |salloc .*?)*(?:\S*bin/)?{program}(?=\s|$)(?! +(?:--->|VERB))(.*)"
    return [found[1].strip() for line in lines if (found := re.match(starts, line))]


def typed(command: str) -> list[str]:
    for pattern, replacement in PLACEHOLDERS.items():
        command = re.sub(pattern, replacement, command)
    words = shlex.split(command, comments=True)
    end = next((number for number, word in enumerate(words) if word in {">", "|", "&&", "<", "2>&1", "&"}), len(words))
    return words[:end]


ALL = [(page, command) for page in PAGES for command in commands(page, "python3? -m aiperf")]
OURS = list({tuple(typed(command)): (page, command) for page, command in reversed(ALL)}.values())
"""Each command once."""
RUNS = [each for each in OURS if (typed(each[1]) or ["seed=1"])[0] not in {*VERBS, "help"}]
OF_VERBS = [each for each in OURS if each not in RUNS]


def name(value: Path | str) -> str:
    return value.name if isinstance(value, Path) else value[:60]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with a run and the files that the placeholders name."""
    monkeypatch.chdir(tmp_path)
    lines = lines_of(PROJECT / "tests/golden/resumed-v5.jsonl")
    write(tmp_path / "run", lines)
    write(tmp_path / "other", [lines[0] | {"run": "other", "started_unix": 0.0}, *lines[1:]])
    (tmp_path / "key").touch()
    (tmp_path / "file").write_text("site: A\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "allowed_signers").write_text("site ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43 + "\n")
    return tmp_path


def test_the_documents_have_commands() -> None:
    assert len(RUNS) > 30 and len(OF_VERBS) > 70


@pytest.mark.parametrize(("page", "command"), OF_VERBS, ids=name)
def test_a_documented_verb_takes_its_words(
    page: Path, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, *words = typed(command)
    if verb == "help":
        assert executed([verb, *words])[0] == 0
        return
    options: list[str] = []
    monkeypatch.setattr(verb_module(verb), "execute", lambda _, others: options.extend(others))

    execute_verb([verb, *words])

    if "OPTION=VALUE" in run_options_of(verb):
        options += ["+cluster=simulated"] if verb == "rehearse" else []
        require_options(options)
        configure(options)


@pytest.mark.parametrize(("page", "command"), RUNS, ids=name)
def test_a_documented_run_has_a_plan(page: Path, command: str, folder: Path) -> None:
    words = [word for word in typed(command) if not word.startswith(("dry_run=", "cluster.submit="))]

    status, _, message = executed([*words, "dry_run=true"])

    # a placeholder for the data or the run of a reader
    assert status == 0 or re.search(r"'?(/data/|runs/|run\b|file\b|network\.json|'site/announcements)", message), (
        message
    )
    if status:
        configure([word for word in words if not word.startswith(("resume=", "follow=", "predict=", "start="))])


def executed(words: Sequence[str]) -> tuple[int, str, str]:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main(words)
    return status, out.getvalue(), err.getvalue()


ANALYSIS = PROJECT / "docs/tutorial-analysis.md"


@pytest.mark.parametrize("command", commands(ANALYSIS, "python -m aiperf"))
def test_the_tutorial_of_analysis_runs_as_printed(command: str, folder: Path) -> None:
    status, out, message = executed(typed(command))

    assert out and (status in (0, 1) or typed(command)[0] == "compare"), message  # 2: not significant


def test_programs_of_the_documents_read_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def program(page: str) -> str:
        found = re.search(r"```python\n(.*?)```", (PROJECT / "docs" / page).read_text(), re.DOTALL)
        assert found is not None
        return found[1].replace('"RUN"', '"run"')

    exec(program("tutorial-analysis.md"), {})
    run = aiperf.load("run")
    assert str(run.score) in capsys.readouterr().out

    printed = subprocess.run(
        [sys.executable, "-I", "-c", program("read-a-journal.md"), "run/journal.jsonl"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"error {run.error:.4f}, score {run.score:.6g} FLOPS" in printed


def test_targets_and_modules_of_the_documents_exist() -> None:
    targets = {word for page in PAGES for rest in commands(page, "make") for word in rest.partition("#")[0].split()}
    modules = {rest.split()[0] for page in PAGES for rest in commands(page, r"python3? -m(?= (?:tools|benchmarks))")}

    assert len(targets) > 5 and len(modules) > 4
    assert {word for word in targets if "=" not in word} <= TARGETS
    assert [name for name in modules if not (PROJECT / f"{name.replace('.', '/')}.py").is_file()] == []
