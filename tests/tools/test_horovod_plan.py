"""A cached Horovod wheel is used only if the same build would be made."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.horovod_plan import Facts, facts_here, nccl_version, plan

ROOT = Path(__file__).parents[2]
LOGIN_NODE = Facts("cpython-311", "x86_64", "2.13.0+cu128", True, "g++12", "12.8", None, None, None)
GPU_NODE = replace(LOGIN_NODE, nvcc="12.8", nccl="2.27.3")


def test_a_gloo_wheel_is_not_used_on_a_gpu_node() -> None:
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
def test_each_property_of_a_wheel_is_part_of_its_key(other: dict[str, object]) -> None:
    assert plan(replace(GPU_NODE, **other)).key != plan(GPU_NODE).key  # type: ignore[arg-type]


def test_a_compiler_of_another_cuda_builds_no_nccl() -> None:
    other = plan(replace(GPU_NODE, nvcc="13.0"))

    assert not other.has_nccl
    assert "CUDA 12.8" in other.note and "CUDA 13.0" in other.note


def test_nvcc_and_nccl_are_found(tmp_path: Path) -> None:
    nvcc, header = tmp_path / "bin/nvcc", tmp_path / "nccl/include/nccl.h"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    nvcc.chmod(0o755)
    header.parent.mkdir(parents=True)
    header.write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n")
    here = {**os.environ, "PATH": f"{nvcc.parent}:{os.environ['PATH']}", "NCCL_HOME": str(tmp_path / "nccl")}

    facts = facts_here(here)

    assert (facts.nvcc, facts.nccl, facts.nccl_home) == ("12.8", "2.27.3", str(tmp_path / "nccl"))
    assert nccl_version("#define NCCL_H_\n") is None


def test_torchs_own_nccl_is_linked_and_cudas_folder_is_named(tmp_path: Path) -> None:
    """Torch's NCCL has no libnccl.so, and nvcc is a wrapper in a folder without CUDA's libraries."""
    nvcc, nccl, cuda = tmp_path / "bin/nvcc", tmp_path / "nccl", tmp_path / "cuda 13"
    nvcc.parent.mkdir()
    (cuda / "lib64").mkdir(parents=True)
    nvcc.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "release 13.0, V13.0.88" || echo "#$ _HERE_={cuda}/bin" >&2\n'
    )
    nvcc.chmod(0o755)
    (nccl / "include").mkdir(parents=True)
    (nccl / "include/nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 29\n#define NCCL_PATCH 7\n")
    (nccl / "lib").mkdir()
    (nccl / "lib/libnccl.so.2").touch()

    there = {name: value for name, value in os.environ.items() if name != "CUDA_HOME"}
    there |= {"PATH": f"{nvcc.parent}:{os.environ['PATH']}", "NCCL_HOME": str(nccl)}
    without = plan(replace(facts_here(there), torch_cuda="13.0"))
    assert not without.has_nccl and f"libcudart.so is not in {cuda}" in without.note
    (cuda / "lib64/libcudart.so").touch()

    made = plan(replace(facts_here(there), torch_cuda="13.0"))

    assert made.environment == {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": str(cuda),
        "CUDA_HOME": str(cuda),
        "HOROVOD_NCCL_LINK": "SHARED",
    }
    assert made.nccl_links == str(nccl)
    (nccl / "lib/libnccl.so").touch()
    assert not facts_here({**os.environ, "NCCL_HOME": str(nccl)}).needs_links


def test_the_key_is_one_line() -> None:
    assert "\n" not in plan(facts_here(os.environ)).key


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("g++", "cmake", "make"))), reason="no g++, cmake and make here")
def test_the_build_lets_cmake_4_configure_and_links_torchs_nccl(tmp_path: Path) -> None:
    """The script with an interpreter that plans NCCL, and keeps the environment of `pip wheel`."""
    python, nccl, seen = tmp_path / "python", tmp_path / "nccl", tmp_path / "seen"
    (nccl / "include").mkdir(parents=True)
    python.write_text(
        f"""#!/bin/sh
case "$1 $2 $3" in
  *horovod_plan.py*) [ $2 = --fits ] || printf '%s\\n' key=k 'operations=(HOROVOD_NCCL_LINK=SHARED)' nccl_links={nccl} note= ;;
  "-m pip wheel") env >{seen}; readlink "$HOROVOD_NCCL_HOME/lib/libnccl.so" >>{seen} ;;
  "-m pip install") ;;
  *) exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""
    )
    python.chmod(0o755)

    script = ["bash", "tools/build_horovod.sh", str(python), "horovod==0.28.1", str(tmp_path / "cache")]
    subprocess.run(script, cwd=ROOT, check=True, stdout=subprocess.PIPE)

    assert "CMAKE_POLICY_VERSION_MINIMUM=3.5\n" in seen.read_text()
    assert seen.read_text().endswith(f"{nccl}/lib/libnccl.so.2\n")


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("g++", "cmake", "make"))), reason="no g++, cmake and make here")
def test_a_wheel_of_former_versions_is_not_used(tmp_path: Path) -> None:
    """Run the script with a pip that only prints its arguments: it builds, although the cache has an old wheel."""
    pytest.importorskip("horovod")
    import torch

    former = f"{sys.implementation.cache_tag}-{os.uname().machine}-torch{torch.__version__}".replace("+", "_")
    wheel = tmp_path / "cache" / former / "horovod-0.28.1-any.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    calls, python = tmp_path / "calls", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-m pip" ] && echo "$@" >> {calls} && exit\nexec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)

    script = ["bash", "tools/build_horovod.sh", str(python), "horovod==0.28.1", str(tmp_path / "cache")]
    subprocess.run(script, cwd=ROOT, check=True, stdout=subprocess.PIPE)

    assert " pip wheel " in calls.read_text()
    assert str(wheel) not in calls.read_text()
    assert f"/{plan(facts_here(os.environ)).key}" in calls.read_text()
