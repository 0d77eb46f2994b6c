"""Printed commands work as printed, whether the environment is active or not."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.cli.output import in_users_form

ACTIVE = str(Path(sys.executable).parent)


@pytest.mark.parametrize("path", [f"{ACTIVE}:/usr/bin:/bin", "/usr/bin:/bin", ""])
@pytest.mark.parametrize("folder", [Path("/"), Path(sys.executable).parents[2], Path(sys.executable).parent])
def test_a_printed_command_starts_this_program(monkeypatch: pytest.MonkeyPatch, path: str, folder: Path) -> None:
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(folder)

    said = in_users_form("each rule: python -m aiperf check x").removeprefix("each rule: ")

    where = shlex.split(said)[:-4]
    assert said.endswith("-m aiperf check x")
    asked = f"{shlex.join(where)} -c 'import sys; print(sys.prefix)'"
    done = subprocess.run(["/bin/bash", "-c", asked], env=os.environ, capture_output=True, text=True)
    assert Path(done.stdout.strip()).samefile(sys.prefix)
    assert (where == ["python"]) == (path.startswith(ACTIVE))


def test_a_command_with_a_path_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    once = in_users_form("python -m aiperf help, `python -m aiperf`")

    assert in_users_form(once) == once and once.count(ACTIVE.rpartition("/")[2]) >= 2
