"""Check of torch and torchvision against this node's accelerators: `python tools/torch_build.py`, called by setup.sh."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

INDEX = "docs/setup.md, GPUs, names the index of other builds"


def remark(
    torch_cuda: str | None, torch_hip: str | None, *, has_nvidia: bool, has_amd: bool, driver_cuda: str | None
) -> str:
    """Return a text about a torch build that does not match the accelerator or its driver. '' if it matches.

    >>> remark("13.0", None, has_nvidia=True, has_amd=False, driver_cuda="12.4")[:71]
    'torch is built for CUDA 13.0, and the driver of this node supports 12.4'
    """
    if (has_nvidia or has_amd) and torch_cuda is None and torch_hip is None:
        return f"this node has accelerators, but torch is a build for processors only: {INDEX}"
    if not has_nvidia or torch_cuda is None or driver_cuda is None:
        return ""
    # within a major release every driver runs every build
    if int(torch_cuda.split(".")[0]) <= int(driver_cuda.split(".")[0]):
        return ""
    return (
        f"torch is built for CUDA {torch_cuda}, and the driver of this node supports {driver_cuda}: ranks would fail. Install "
        f"a newer driver or a build for an older CUDA: {INDEX}"
    )


def driver_cuda(answer: str) -> str | None:
    """Return the newest CUDA version of the driver, from the output of nvidia-smi.

    >>> driver_cuda("| NVIDIA-SMI 550.54  Driver Version: 550.54  CUDA Version: 12.4 |")
    '12.4'
    """
    match = re.search(r"CUDA Version:\s*(\d+\.\d+)", answer)
    return match[1] if match else None


def main() -> None:
    import torch
    import torchvision

    if not torchvision.extension._has_ops():
        raise SystemExit("the operators of torchvision cannot be loaded with this torch")
    smi = shutil.which("nvidia-smi")
    answer = "" if smi is None else subprocess.run([smi], stdout=subprocess.PIPE, text=True, check=False).stdout
    has_nvidia, has_amd = Path("/dev/nvidiactl").exists(), Path("/dev/kfd").exists()
    if text := remark(
        torch.version.cuda, torch.version.hip, has_nvidia=has_nvidia, has_amd=has_amd, driver_cuda=driver_cuda(answer)
    ):
        print(text)


if __name__ == "__main__":
    main()
