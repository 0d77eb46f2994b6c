"""Values of a test module from arithmetic that is equal on every x86-64: numpy's and BLAS' kernels of the oldest processors.

`python -m tests.builders.fixed_arithmetic tests.searchers.test_golden_proposals` prints the hashes to record.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}
"""With others the regression of the search differs in its last bits, and networks of nearly equal bounds change places."""


def recorded_anew(module: str) -> dict[str, str]:
    """Return the hashes that a module prints as a program, in a process with KERNELS."""
    if platform.machine() != "x86_64":
        pytest.skip("the hashes were recorded on x86-64")
    printed = subprocess.run(
        [sys.executable, "-m", module],
        cwd=Path(__file__).parents[2],
        env=os.environ | KERNELS,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    hashes: dict[str, str] = json.loads(printed)
    return hashes


if __name__ == "__main__":
    print(json.dumps(recorded_anew(sys.argv[1]), indent=1))
