"""How Horovod is to be built here, and the key under which its wheel is kept: `python tools/horovod_plan.py`, in the
environment that it is for.

Prints shell assignments for tools/build_horovod.sh. The key names all that makes one wheel differ from another: Python,
machine, torch and its C++ ABI, the compiler, and what gradients travel by. A wheel of a login node without CUDA is therefore
never taken on a node with accelerators. With `--fits`: status 0 where the installed Horovod has all that would be built here.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Facts:
    """What of a machine and its environment decides how Horovod is built."""

    python: str
    """The interpreter's cache tag: cpython-311."""
    machine: str
    torch: str
    cxx11_abi: bool
    compiler: str
    """Of C++, by its major version: g++12."""
    torch_cuda: str | None
    """The CUDA that torch was built for."""
    nvcc: str | None
    """The release of CUDA's compiler, where it is found."""
    nccl_home: str | None
    """Where NCCL's headers and library lie, if not at the system's own place."""
    nccl: str | None
    """The version that its header tells, where it is found."""


@dataclass(frozen=True)
class Plan:
    key: str
    environment: dict[str, str]
    """What Horovod's setup.py reads, besides what every build here is given."""
    note: str
    """Why there is no NCCL, where one might expect it; else empty."""

    @property
    def has_nccl(self) -> bool:
        return bool(self.environment)


def plan(facts: Facts) -> Plan:
    """Gloo always; NCCL where torch has CUDA and a compiler of the same major release and NCCL's headers are found."""
    environment: dict[str, str] = {}
    exchange, note = "gloo", ""
    if facts.torch_cuda is not None:
        if facts.nvcc is None:
            note = "torch has CUDA but there is no nvcc here"
        elif facts.nvcc.split(".")[0] != facts.torch_cuda.split(".")[0]:
            note = f"torch is built for CUDA {facts.torch_cuda} but nvcc is of CUDA {facts.nvcc}"
        elif facts.nccl is None:
            note = "nvcc is here but NCCL's headers are not (set NCCL_HOME)"
        else:
            exchange = f"gloo-nccl{facts.nccl}-cuda{facts.nvcc}"
            environment = {"HOROVOD_GPU_OPERATIONS": "NCCL"}
            if facts.nccl_home:
                environment["HOROVOD_NCCL_HOME"] = facts.nccl_home
    parts = (facts.python, facts.machine, f"torch{facts.torch}", f"abi{int(facts.cxx11_abi)}", facts.compiler, exchange)
    return Plan("-".join(parts).replace("+", "_"), environment, note)


def look(environment: Mapping[str, str]) -> Facts:
    """This machine's, with the torch that this interpreter imports."""
    import torch

    nccl_home = environment.get("NCCL_HOME")
    header = Path(nccl_home or "/usr") / "include/nccl.h"
    return Facts(
        python=str(sys.implementation.cache_tag),
        machine=platform.machine(),
        torch=torch.__version__,
        cxx11_abi=torch.compiled_with_cxx11_abi(),
        compiler="g++" + _said(["g++", "-dumpversion"], environment).split(".")[0],
        torch_cuda=torch.version.cuda,
        nvcc=_nvcc_release(environment),
        nccl_home=nccl_home,
        nccl=nccl_version(header.read_text()) if header.exists() else None,
    )


def _nvcc_release(environment: Mapping[str, str]) -> str | None:
    if shutil.which("nvcc", path=environment.get("PATH")) is None:
        return None
    found = re.search(r"release (\d+\.\d+)", _said(["nvcc", "--version"], environment))
    return found.group(1) if found else None


def nccl_version(header: str) -> str | None:
    """Of the text of nccl.h: '2.27.3'."""
    parts = [re.search(rf"^#define NCCL_{part} (\d+)", header, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part.group(1) for part in parts if part) if all(parts) else None


def _said(command: list[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True).stdout


def _installed_fits(wanted: Plan) -> bool:
    try:
        import horovod.torch as hvd
    except ImportError:
        return False
    has_nccl = bool(hvd.nccl_built())
    print("horovod.torch with Gloo", "and NCCL" if has_nccl else "")
    return bool(hvd.gloo_built()) and (has_nccl or not wanted.has_nccl)


def main() -> int:
    wanted = plan(look(os.environ))
    if sys.argv[1:] == ["--fits"]:
        return 0 if _installed_fits(wanted) else 1
    operations = " ".join(shlex.quote(f"{name}={value}") for name, value in wanted.environment.items())
    print(f"key={shlex.quote(wanted.key)}\noperations=({operations})\nnote={shlex.quote(wanted.note)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
