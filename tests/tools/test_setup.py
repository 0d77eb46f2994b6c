"""Setup tells at once what a machine lacks, and makes a half environment anew."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "sh", "dirname", "grep", "awk", "df", "date", "cat", "head", "sleep", "timeout", "mktemp", "rm")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script, and a search path without compilers."""
    folder = tmp_path / "ein Ordner für uns"
    (folder / "tools").mkdir(parents=True)
    (folder / "bin").mkdir()
    shutil.copy(ROOT / "tools/setup.sh", folder / "tools")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    for tool in TOOLS:
        (folder / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return folder


def setup(checkout: Path, python: str, **more: str) -> str:
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_INDEX": "1"}
    here = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment = here | nowhere | {"PATH": str(checkout / "bin"), "PYTHON": python} | more
    done = subprocess.run(
        ["bash", "tools/setup.sh"], cwd=checkout, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_all_that_is_missing_is_told_before_anything_is_made(checkout: Path) -> None:
    said = setup(checkout, sys.executable, HOROVOD="require")

    for lacking in ("torch==", "gcc (", "g++ for Horovod", "cmake for Horovod", "make for Horovod"):
        assert f"missing: {lacking}" in said
    assert not (checkout / ".venv").exists()


def test_a_folder_of_wheels_that_is_none_is_refused(checkout: Path) -> None:
    assert "WHEELS must be the folder that 'make wheels' filled, but 'nowhere' is no folder" in setup(
        checkout, sys.executable, WHEELS="nowhere"
    )


def test_another_operating_system_is_refused_at_once(checkout: Path, tmp_path: Path) -> None:
    (uname := tmp_path / "uname").write_text("#!/bin/sh\necho Darwin\n")
    uname.chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    made = subprocess.run(["make", "-n", "run"], cwd=ROOT, env=path, capture_output=True, text=True, check=False)
    start = "import runpy, sys; sys.platform = 'win32'; runpy.run_module('aiperf', run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=False)

    assert "needs Linux, but this is darwin23" in setup(checkout, sys.executable, OSTYPE="darwin23")
    assert (made.returncode, ran.returncode) == (2, 1)
    assert "needs Linux, but this is Darwin. Use a Linux machine" in made.stderr
    assert ran.stderr == "aiperf: Linux is needed, but this is win32. Use a Linux machine, a container or WSL 2\n"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (None, "missing: Python 3.11, 3.12 or 3.13, but "),
        ('[ "$1" = -V ] && echo Python 3.10.13; [ "$1" = -V ]', "is Python 3.10.13: make setup PYTHON="),
        ('case "$2" in *ensurepip*) exit 1 ;; esac', "missing: the module venv of "),
    ],
)
def test_an_interpreter_that_does_not_do_is_told(checkout: Path, program: str | None, expected: str) -> None:
    python = checkout / "python"
    if program is not None:
        python.write_text(f"#!/bin/sh\n{program}\n")
        python.chmod(0o755)

    said = setup(checkout, str(python))

    assert expected in said and "missing: gcc" in said
    assert not (checkout / ".venv").exists()


def test_a_half_environment_is_made_anew(checkout: Path) -> None:
    """`python3 -m venv` without ensurepip leaves an interpreter without pip."""
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to("/bin/false")
    (checkout / "bin/gcc").symlink_to("/bin/true")
    python = checkout / "python"
    python.write_text(
        "#!/bin/sh\ncase $* in *glob*) echo wheel ;; *index*) grep -h torch== requirements/*.txt ;; "
        '*"-m venv"*) echo "$@"; exit 1 ;; esac\n'
    )
    python.chmod(0o755)

    said = setup(checkout, str(python))

    assert "-m venv --clear --without-pip .venv" in said and "apt-get install python3-venv" in said


@pytest.mark.parametrize(
    ("device", "sinfo", "kept", "expected"),
    [
        ("gpu", None, None, "failed: DEVICE must be auto, cpu, cuda or rocm, but is 'gpu'"),
        (
            "auto",
            "echo gpu:h100:8",
            None,
            "Slurm names these resources of its nodes: gpu:h100:8. Choose one: make setup",
        ),
        ("auto", "exit 1", None, "DEVICE=cpu"),  # commands without a cluster
        ("auto", "echo gpu:h100:8", "cuda", "DEVICE=cuda"),
        ("cpu", "echo gpu:h100:8", "cuda", "DEVICE=cpu"),
    ],
)
def test_auto_asks_on_a_login_node_and_keeps_a_choice(
    checkout: Path, device: str, sinfo: str | None, kept: str | None, expected: str
) -> None:
    if Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists():
        pytest.skip("this machine has a device")
    for name, program in (("sinfo", sinfo), ("python", "echo 2.13.0; case $* in *venv*--clear*) exit 1 ;; esac")):
        if program is not None:
            (checkout / "bin" / name).write_text(f"#!/bin/sh\n{program}\n")
            (checkout / "bin" / name).chmod(0o755)
    (checkout / "bin/gcc").symlink_to("/bin/true")
    if kept is not None:
        (checkout / ".venv").mkdir()
        (checkout / ".venv/.device").write_text(f"{kept}\n")

    assert expected in setup(checkout, "python", DEVICE=device)
