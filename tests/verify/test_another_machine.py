"""An honest journal is verified with arithmetic that differs in its last bits: other BLAS kernels, one thread, four threads.

A proposal that differs there is reported as not reproducible on this machine, and never as a contradiction.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.verify import Verification, verify
from tests.builders.forged_journal import Line, lines_of, write

REPOSITORY = Path(__file__).parents[2]
JOURNAL = REPOSITORY / "tests" / "golden" / "resumed-v5.jsonl"
REAL = lines_of(JOURNAL)
ELSEWHERE = "AMD EPYC 9654 96-Core Processor"
KERNEL = """
import threadpoolctl, numpy, scipy.linalg
print(*{each["architecture"] for each in threadpoolctl.threadpool_info() if each["internal_api"] == "openblas"})
"""


def ran(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Verify in a new interpreter, since libraries choose their kernels by the environment."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )


MACHINES = {
    "a processor of 2004": {"OPENBLAS_CORETYPE": "Prescott"},
    "one without AVX-512": {"OPENBLAS_CORETYPE": "Haswell"},
    "one thread": {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    "four threads": {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"},
}


@pytest.mark.parametrize("machine", MACHINES)
def test_an_honest_journal_is_sound_with_other_kernels(machine: str) -> None:
    found = ran(MACHINES[machine], "-m", "aiperf", "verify", str(JOURNAL), "--all", "--json")

    printed = json.loads(found.stdout)
    assert found.returncode == 0, found.stdout
    assert [check for check in printed["checks"] if check["contradictions"]] == []
    assert len(printed["sample"]) == 14


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names kernels of x86-64")
def test_the_environment_chooses_other_kernels_indeed() -> None:
    """Else the tests above would show nothing."""
    kernels = {
        ran(MACHINES[name], "-c", KERNEL).stdout.strip() for name in ("a processor of 2004", "one without AVX-512")
    }

    assert len(kernels) == 2 and "" not in kernels


def from_elsewhere(lines: list[Line]) -> list[Line]:
    """The same run, had it been on another kind of processor."""
    for line in lines:
        for part in (line, line.get("machine") or {}):
            for name in ("cpu_model", "device"):
                if part.get(name):
                    part[name] = ELSEWHERE
    return lines


def with_another_choice(lines: list[Line], numbers: tuple[int, ...]) -> list[Line]:
    """As where the last bits made a searcher choose another of two batch sizes."""
    for line in lines:
        if line["event"] in ("TrialProposed", "TrialStarted") and line.get("number", line.get("trial")) in numbers:
            line["batch_size"] += -8 if line["batch_size"] == 128 else 8
    return lines


def proposals(folder: Path, lines: list[Line]) -> Verification:
    return verify(write(folder, lines), sample=None)


def test_differing_proposals_of_another_processor_are_sound(tmp_path: Path) -> None:
    # number 13, the last, was trained for less than an epoch: its number of images does not determine its batch
    found = proposals(tmp_path, with_another_choice(from_elsewhere(copy.deepcopy(REAL)), (13,)))

    assert found.is_sound
    assert [(one.check, one.certainty) for one in found.findings] == [("proposals", "cannot be determined")]
    assert "not re-derivable here" in found.findings[0].found and ELSEWHERE in found.findings[0].found


def test_the_same_on_this_processor_is_a_contradiction(tmp_path: Path) -> None:
    lines = copy.deepcopy(REAL)
    here = ran({}, "-c", "from aiperf.system.host import cpu_model; print(cpu_model())").stdout.strip()
    for line in lines:
        for part in (line, line.get("machine") or {}):
            for name in ("cpu_model", "device"):
                if part.get(name):
                    part[name] = here

    found = proposals(tmp_path, with_another_choice(lines, (13,)))

    assert [(one.check, one.certainty) for one in found.findings] == [("proposals", "contradiction")]


def test_equal_proposals_of_another_processor_are_sound(
    tmp_path: Path,
) -> None:
    assert proposals(tmp_path, from_elsewhere(copy.deepcopy(REAL))).findings == ()
