"""Which sources run: one digest, that anybody can make again with stock tools."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aiperf.system import source
from aiperf.system.source import COMMIT, CONFIGURATION, PACKAGES, SOURCE, digest, revision


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for number, package in enumerate((*PACKAGES, CONFIGURATION)):
        (tmp_path / package / "inner").mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text(f"# {number}")
        (tmp_path / package / "inner" / "a-b.yaml").write_text("a: b")
        (tmp_path / package / "inner.py").write_text("")
        (tmp_path / package / "__pycache__").mkdir()
        (tmp_path / package / "__pycache__" / "inner.pyc").write_text("made here")
    return tmp_path


def _output(command: str, folder: Path) -> str:
    answer = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | sha256sum"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.split()[0]


def test_the_digest_equals_that_of_stock_tools(sources: Path) -> None:
    assert source.__doc__ is not None
    command = source.__doc__.partition("name in a checkout:\n")[2].strip()
    in_a_checkout, ours = _output(command, sources), digest(sources)

    (sources / CONFIGURATION).rename(sources / "aiperf" / CONFIGURATION)

    assert in_a_checkout == ours == digest(sources)
    assert _output(command.replace(f" {CONFIGURATION} ", " ", 1), sources) == ours


def test_only_changes_in_a_package_change_the_digest(sources: Path) -> None:
    before = digest(sources)
    (sources / "README.md").write_text("beside")
    (sources / "aiperf" / "__pycache__" / "more.pyc").write_text("made here")
    same = digest(sources)
    (sources / "conf" / "inner.py").rename(sources / "conf" / "renamed.py")
    renamed = digest(sources)
    (sources / "conf" / "renamed.py").write_text(" ")

    assert same == before
    assert len({before, renamed, digest(sources)}) == 3


def test_missing_packages_are_listed(sources: Path) -> None:
    shutil.rmtree(sources / "morphism")

    with pytest.raises(FileNotFoundError, match="the packages' sources are not there"):
        digest(sources)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_names_its_commit_and_changed_files(sources: Path) -> None:
    def git(*words: str) -> str:
        as_somebody = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(
            ["git", *as_somebody, *words], cwd=sources, capture_output=True, text=True, check=True
        ).stdout.strip()

    without = revision(sources)
    git("init", "-q")
    git("add", "-A", "--force")
    git("commit", "-qm", "first")
    clean = revision(sources)
    (sources / "README.md").write_text("beside")
    beside = revision(sources)
    (sources / "conf" / "inner.py").write_text("changed")

    assert without == {SOURCE: clean[SOURCE]}
    assert clean == beside == {SOURCE: clean[SOURCE], COMMIT: git("rev-parse", "HEAD")}
    assert revision(sources)[COMMIT] == git("rev-parse", "HEAD") + "+"
