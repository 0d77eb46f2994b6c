"""Missing and broken dependencies: one message with the fix. Verbs that read need neither torch nor Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.__main__ import main
from tests.cli.test_run_options import TINY

TOP500 = Path(__file__).parents[1] / "scaling/top500_2019_06.csv"
TIMELINE = Path(__file__).parents[1] / "train/tracing/horovod_two_ranks.json"
WITHOUT = """
import sys
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ERROR(f"no {name} here", name=name)
ABSENT, ERROR = sys.argv[1].split(), {"missing": ModuleNotFoundError, "broken": ImportError}[sys.argv[2]]
sys.meta_path.insert(0, Absent)
from aiperf.__main__ import main
"""
"""Child process in which packages cannot be imported."""


@pytest.mark.parametrize("how", ["missing", "broken"])
@pytest.mark.parametrize(
    ("absent", "words"),
    [
        ("msgspec", "--help"),
        ("yaml", "--help"),
        ("msgspec", "--version"),
        ("hydra", "dry_run=true"),
        ("numpy", "score x"),
        ("torch", "executor=inline preflight.probes=none"),
    ],
)
def test_a_missing_dependency_is_one_message(tmp_path: Path, absent: str, words: str, how: str) -> None:
    child = [sys.executable, "-c", f"{WITHOUT}\nsys.exit(main(sys.argv[3:]))", absent, how, *words.split()]

    answer = subprocess.run(child, cwd=tmp_path, capture_output=True, text=True)

    assert answer.returncode == 2
    last = answer.stderr.splitlines()[-1]
    assert last.startswith(f"aiperf: the Python package '{absent}") and "make setup" in last
    assert "Traceback" not in answer.stderr


def test_reading_verbs_need_the_packages_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "name=read"]) == 0
    (run,) = [path.name for path in (tmp_path / "runs").iterdir()]
    verbs = [
        ["score", run],
        ["verify", run],
        ["report", run, "--out", "again"],
        ["rank", "runs"],
        ["compare", run, run],
        ["standing", run, "--list", str(TOP500)],
        ["scale", run],
        ["breakdown", "--timeline", str(TIMELINE)],
        ["submit", run, "--out", "bundle.tar"],
        ["inspect", "bundle.tar"],
    ]
    statuses = f"{WITHOUT}\nfor words in {verbs!r}:\n    print('status', main(words), *words)"

    answer = subprocess.run(
        [
            sys.executable,
            "-c",
            statuses,
            "torch torchvision ray sklearn safetensors simplejpeg pynvml pandas",
            "missing",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert answer.returncode == 0, answer.stderr
    assert "Python package" not in answer.stderr
    found = [line.split()[1:3] for line in answer.stdout.splitlines() if line.startswith("status ")]
    assert [verb for _, verb in found] == [words[0] for words in verbs]
    assert {verb: status for status, verb in found} | {"compare": "2"} == {
        "score": "0", "verify": "0", "report": "0", "rank": "0", "compare": "2", "standing": "1", "scale": "2",
        "breakdown": "0", "submit": "0", "inspect": "0"
    }  # fmt: skip
