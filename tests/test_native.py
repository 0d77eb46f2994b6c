"""Programs built from shipped sources and kept in the cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aiperf.errors import BadConfiguration
from aiperf.native import cache_folder, program
from aiperf.own_files import NotOwn

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler `cc` is installed (Debian: gcc)")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "answer.c"
    path.write_text('#include <stdio.h>\nint main(void) { printf("%d\\n", ANSWER); return 0; }\n')
    return path


def build(source: Path, answer: int) -> Path:
    return program(source, compiler="cc", flags=("-O1", f"-DANSWER={answer}"))


@needs_compiler
def test_program_runs_and_is_built_once(source: Path) -> None:
    built = build(source, 7)
    time_built = built.stat().st_mtime_ns

    assert subprocess.run([built], capture_output=True, text=True, check=True).stdout == "7\n"
    assert built.parent == cache_folder()
    assert build(source, 7) == built
    assert built.stat().st_mtime_ns == time_built


@needs_compiler
def test_other_flags_or_source_give_another_program(source: Path) -> None:
    first, other_flags = build(source, 7), build(source, 8)
    source.write_text(source.read_text() + "\n")

    assert len({first, other_flags, build(source, 7)}) == 3


def test_missing_compiler_is_named_with_its_package(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(BadConfiguration, match=r"'mpicc' is not installed.*apt-get install libopenmpi-dev"):
        program(source, compiler="mpicc", flags=())


@needs_compiler
def test_refused_source_leaves_nothing_in_the_cache(source: Path) -> None:
    source.write_text("int main(void) { return undeclared; }\n")

    with pytest.raises(BadConfiguration, match=r"(?s)'cc' failed with status 1.*undeclared"):
        build(source, 7)

    assert list(cache_folder().iterdir()) == []


@needs_compiler
@pytest.mark.parametrize("place", ["program", "folder"])
def test_a_program_that_others_can_change_is_not_run(source: Path, place: str) -> None:
    built = build(source, 7)
    (built if place == "program" else built.parent).chmod(0o777)

    with pytest.raises(NotOwn, match=r"without the permissions 002, but has owner \d+ and mode 1?[04]0777\."):
        build(source, 7)
