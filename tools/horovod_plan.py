"""Build options of Horovod for this environment, and the key of its wheel, as shell assignments for tools/build_horovod.sh.

The key contains everything that distinguishes wheels: Python, machine, torch and its C++ ABI, the compiler, and the transport.
With `--fits`: exit status 0 if the installed Horovod has all features of a build here.
"""

from __future__ import annotations

import importlib.util
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

_LIBRARIES = ("lib64", "lib", "lib/*-linux-gnu", "targets/*/lib")


@dataclass(frozen=True)
class Facts:
    python: str
    """The interpreter's cache tag: cpython-311."""
    machine: str
    torch: str
    cxx11_abi: bool
    compiler: str
    """C++ compiler with its major version: g++12."""
    torch_cuda: str | None
    """CUDA version of torch's build."""
    nvcc: str | None
    """Release of CUDA's compiler, None if it is missing."""
    nccl_home: str | None
    """Folder of NCCL's headers and library, None for the system's folder."""
    nccl: str | None
    """NCCL version from its header, None if it is missing."""
    needs_links: bool = False
    """True if the folder has libnccl.so.2 but no libnccl.so, like torch's own NCCL."""
    cuda_home: str | None = None
    """Folder of CUDA: CUDA_HOME, or as its compiler reports it, since the compiler on the path may be a wrapper elsewhere."""
    has_cudart: bool = True
    """False if libcudart is not in that folder."""


@dataclass(frozen=True)
class Plan:
    key: str
    environment: dict[str, str]
    """Variables for Horovod's setup.py in addition to those of every build."""
    nccl_links: str
    """Folder of NCCL that needs links, since its library lacks the name that the linker expects. '' if none is needed."""
    note: str
    """Reason for a missing NCCL on a machine with CUDA, otherwise ''."""

    @property
    def has_nccl(self) -> bool:
        return bool(self.environment)


def plan(facts: Facts) -> Plan:
    """Return the build plan. Gloo: always. NCCL: if torch has CUDA, with a matching compiler and NCCL's headers."""
    environment: dict[str, str] = {}
    exchange, nccl_links, note = "gloo", "", ""
    if facts.torch_cuda is not None:
        if facts.nvcc is None:
            note = "torch has CUDA but there is no nvcc here"
        elif facts.nvcc.split(".")[0] != facts.torch_cuda.split(".")[0]:
            note = f"torch is built for CUDA {facts.torch_cuda} but nvcc is of CUDA {facts.nvcc}"
        elif facts.nccl is None:
            note = "nvcc is here but NCCL's headers are not (set NCCL_HOME)"
        elif not facts.has_cudart:
            note = (
                f"nvcc is here but libcudart.so is not in {facts.cuda_home} (install cuda-cudart-dev, or set CUDA_HOME)"
            )
        else:
            exchange = f"gloo-nccl{facts.nccl}-cuda{facts.nvcc}"
            environment = {"HOROVOD_GPU_OPERATIONS": "NCCL"}
            if facts.cuda_home:
                # torch's CMake reads CUDA_HOME, and without it takes the folder above the nvcc in the path
                environment |= {"HOROVOD_CUDA_HOME": facts.cuda_home, "CUDA_HOME": facts.cuda_home}
            if facts.nccl_home and facts.needs_links:
                environment["HOROVOD_NCCL_LINK"] = "SHARED"
                nccl_links = facts.nccl_home
            elif facts.nccl_home:
                environment["HOROVOD_NCCL_HOME"] = facts.nccl_home
    parts = (facts.python, facts.machine, f"torch{facts.torch}", f"abi{int(facts.cxx11_abi)}", facts.compiler, exchange)
    return Plan("-".join(parts).replace("+", "_"), environment, nccl_links, note)


def facts_here(environment: Mapping[str, str]) -> Facts:
    import torch

    nccl_home = environment.get("NCCL_HOME")
    if nccl_home is None and not Path("/usr/include/nccl.h").exists():
        nccl_home = _nccl_of_torch()
    has_nvcc = shutil.which("nvcc", path=environment.get("PATH")) is not None
    cuda_home = environment.get("CUDA_HOME") or (_cuda_home(environment) if has_nvcc else None)
    header = Path(nccl_home or "/usr") / "include/nccl.h"
    library = None if nccl_home is None else Path(nccl_home) / "lib"
    return Facts(
        python=str(sys.implementation.cache_tag),
        machine=platform.machine(),
        torch=torch.__version__,
        cxx11_abi=torch.compiled_with_cxx11_abi(),
        compiler="g++" + _output(["g++", "-dumpversion"], environment).split(".")[0],
        torch_cuda=torch.version.cuda,
        nvcc=_nvcc_release(environment) if has_nvcc else None,
        nccl_home=nccl_home,
        nccl=nccl_version(header.read_text()) if header.exists() else None,
        needs_links=library is not None and {path.name for path in library.glob("libnccl.so*")} == {"libnccl.so.2"},
        cuda_home=cuda_home,
        has_cudart=cuda_home is None
        or any(found for each in _LIBRARIES for found in Path(cuda_home).glob(f"{each}/libcudart.so")),
    )


def _nccl_of_torch() -> str | None:
    if importlib.util.find_spec("nvidia") is None or (spec := importlib.util.find_spec("nvidia.nccl")) is None:
        return None
    return next(iter(spec.submodule_search_locations or ()), None)


def _cuda_home(environment: Mapping[str, str]) -> str | None:
    dry_run = subprocess.run(
        ["nvcc", "-dryrun", "-x", "cu", "/dev/null"], env=dict(environment), capture_output=True, text=True, check=False
    )
    match = re.search(r"^#\$ _HERE_=(.+)$", dry_run.stderr + dry_run.stdout, re.M)
    return str(Path(match[1].strip()).parent) if match else None


def _nvcc_release(environment: Mapping[str, str]) -> str | None:
    match = re.search(r"release (\d+\.\d+)", _output(["nvcc", "--version"], environment))
    return match.group(1) if match else None


def nccl_version(header: str) -> str | None:
    parts = [re.search(rf"^#define NCCL_{part} (\d+)", header, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part.group(1) for part in parts if part) if all(parts) else None


def _output(command: list[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _installed_fits(wanted: Plan) -> bool:
    try:
        import horovod.torch as hvd
    except ImportError:
        return False
    has_nccl = bool(hvd.nccl_built())
    print("horovod.torch with Gloo", "and NCCL" if has_nccl else "")
    return bool(hvd.gloo_built()) and (has_nccl or not wanted.has_nccl)


def main() -> int:
    wanted = plan(facts_here(os.environ))
    if sys.argv[1:] == ["--fits"]:
        return 0 if _installed_fits(wanted) else 1
    operations = " ".join(shlex.quote(f"{name}={value}") for name, value in wanted.environment.items())
    print(
        f"key={shlex.quote(wanted.key)}\noperations=({operations})\nnccl_links={shlex.quote(wanted.nccl_links)}\nnote={shlex.quote(wanted.note)}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
