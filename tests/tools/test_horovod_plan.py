"""A kept Horovod wheel is taken only where the same would be built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.horovod_plan import Facts, look, nccl_version, plan

ROOT = Path(__file__).parents[2]
LOGIN_NODE = Facts("cpython-311", "x86_64", "2.13.0+cu128", True, "g++12", "12.8", None, None, None)
GPU_NODE = replace(LOGIN_NODE, nvcc="12.8", nccl="2.27.3")


def test_a_gloo_wheel_of_the_login_node_is_not_taken_on_a_gpu_node() -> None:
    login, gpu = plan(LOGIN_NODE), plan(GPU_NODE)

    assert login.key != gpu.key
    assert (login.has_nccl, gpu.has_nccl) == (False, True)
    assert "no nvcc" in login.note and gpu.note == ""


@pytest.mark.parametrize(
    "other",
    [
        {"python": "cpython-312"},
        {"machine": "aarch64"},
        {"torch": "2.12.0+cu128"},
        {"cxx11_abi": False},
        {"compiler": "g++14"},
        {"nvcc": "12.9"},
        {"nccl": "2.28.1"},
        {"nccl": None},
        {"nvcc": None},
    ],
    ids=str,
)
def test_whatever_makes_another_wheel_makes_another_key(other: dict[str, object]) -> None:
    assert plan(replace(GPU_NODE, **other)).key != plan(GPU_NODE).key  # type: ignore[arg-type]


def test_a_compiler_of_another_cuda_than_torchs_builds_no_nccl_and_says_so() -> None:
    other = plan(replace(GPU_NODE, nvcc="13.0"))

    assert not other.has_nccl
    assert "CUDA 12.8" in other.note and "CUDA 13.0" in other.note


def test_nvcc_and_nccl_are_found_where_they_lie(tmp_path: Path) -> None:
    nvcc, header = tmp_path / "bin/nvcc", tmp_path / "nccl/include/nccl.h"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    nvcc.chmod(0o755)
    header.parent.mkdir(parents=True)
    header.write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n")
    here = {**os.environ, "PATH": f"{nvcc.parent}:{os.environ['PATH']}", "NCCL_HOME": str(tmp_path / "nccl")}

    facts = look(here)

    assert (facts.nvcc, facts.nccl, facts.nccl_home) == ("12.8", "2.27.3", str(tmp_path / "nccl"))
    assert nccl_version("#define NCCL_H_\n") is None


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("g++", "cmake", "make"))), reason="no g++, cmake and make here")
def test_a_wheel_kept_under_the_key_of_former_versions_is_not_taken(tmp_path: Path) -> None:
    """The script with a pip that only says what it was asked: it builds, though an old wheel lies in the cache."""
    pytest.importorskip("horovod")
    import torch

    former = f"{sys.implementation.cache_tag}-{os.uname().machine}-torch{torch.__version__}".replace("+", "_")
    wheel = tmp_path / "cache" / former / "horovod-0.28.1-any.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    asked, python = tmp_path / "asked", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-m pip" ] && echo "$@" >> {asked} && exit\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)

    script = ["bash", "tools/build_horovod.sh", str(python), "horovod==0.28.1", str(tmp_path / "cache")]
    subprocess.run(script, cwd=ROOT, check=True, stdout=subprocess.PIPE)

    assert " pip wheel " in asked.read_text()
    assert str(wheel) not in asked.read_text()
    assert f"/{plan(look(os.environ)).key}" in asked.read_text()
