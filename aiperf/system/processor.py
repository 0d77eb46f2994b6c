"""What the kernel says of this host's processors in /proc/cpuinfo: their name, and what they can do. Linux; no torch."""

from __future__ import annotations

from pathlib import Path


def cpu_model(proc: Path = Path("/proc")) -> str | None:
    """The processor's name; kernels for Arm give none. None too where there is no such file."""
    return _of_the_first(proc, "model name")


def cpu_features(proc: Path = Path("/proc")) -> frozenset[str]:
    """What the processor can do, in the kernel's words ('avx512_bf16'; 'bf16' on Arm); nothing where there is no such file."""
    told = _of_the_first(proc, "flags", "Features")
    return frozenset() if told is None else frozenset(told.split())


def _of_the_first(proc: Path, *names: str) -> str | None:
    path = proc / "cpuinfo"
    if not path.exists():  # not Linux
        return None
    with path.open() as lines:
        for line in lines:  # not read whole: the kernel computes each processor's lines anew, 0.1 ms apiece
            if not line.strip():
                break
            name, _, value = line.partition(":")
            if name.strip() in names:
                return value.strip()
    return None
