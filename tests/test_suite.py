"""The suite itself: tests of real processes are never run two at once."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOTES = """
import os
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(8))
def test_notes_its_worker(number):
    with (Path(__file__).parents[2] / "{name}").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + " ")
"""


def test_only_one_worker_runs_tests_of_real_processes(tmp_path: Path) -> None:
    for folder in ("drive", "train/ranks", "rules"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        name = folder.replace("/", "_")
        text = NOTES.replace("{name}", name).replace("parents[2]", f"parents[{folder.count('/') + 2}]")
        (tmp_path / "tests" / folder / f"test_{name}.py").write_text(text)
    shutil.copy(HERE / "conftest.py", tmp_path / "tests" / "conftest.py")

    words = ["-q", "-n", "2", "-p", "no:cacheprovider", "tests"]
    subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)

    ran = {name: set((tmp_path / name).read_text().split()) for name in ("drive", "train_ranks", "rules")}
    assert len(ran["drive"]) == 1
    assert ran["drive"] == ran["train_ranks"]
    assert ran["rules"] - ran["drive"], "the other worker is not idle meanwhile"


def test_a_crashed_worker_fails_the_suite_without_stopping_it(tmp_path: Path) -> None:
    """It had done other files by then: xdist gave these out again, with nothing left to run, and waited for their end."""
    (tmp_path / "tests").mkdir()
    for number in range(8):
        (tmp_path / "tests" / f"test_{number}.py").write_text("def test_passes(): pass\n")
    (tmp_path / "tests" / "test_last.py").write_text("import os\ndef test_crashes(): os._exit(1)\n")
    shutil.copy(HERE / "conftest.py", tmp_path / "tests" / "conftest.py")

    words = ["-q", "-n", "2", "-p", "no:cacheprovider", "--max-worker-restart=2", "tests"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert ended.returncode != 0
    assert "8 passed" in ended.stdout, ended.stdout
    assert "crashed while running 'tests/test_last.py::test_crashes'" in ended.stdout
