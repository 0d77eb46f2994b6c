"""NVIDIA accelerators of a node and their links, read by NVML: the contents of `nvidia-smi -q` and `nvidia-smi topo -m`.

Written after NVML's reference. Tested with a substitute library, not on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from aiperf.system.description.values import Part, unread
from aiperf.system.samplers.attach import sampled_accelerators

_NEAR = {
    0: "same board",
    10: "one switch",
    20: "several switches",
    30: "one host bridge",
    40: "one NUMA node",
    50: "across sockets",
}
_MOST_LINKS = 18


def accelerators() -> Part:
    """Return the accelerators as names and values, without serial numbers. `not_seen`: reason by missing vendor library."""
    devices, samplers = sampled_accelerators()
    properties = ("model", "memory_bytes", "driver", "power_cap_watts")
    part: Part = {
        "devices": [
            {"name": f"{device.vendor} {device.index}"}
            | {name: getattr(device, name) or unread("the vendor's library gives none") for name in properties}
            for device in devices
        ],
        "not_seen": samplers.absent,
    }
    return part if "nvml" in samplers.absent else part | {"nvidia": _nvidia()}


def _nvidia() -> Part:
    import pynvml

    pynvml.nvmlInit()
    try:
        handles = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            with suppress(pynvml.NVMLError):  # lost, or of another job
                handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
        return {
            "cuda": _value(lambda: _version(pynvml.nvmlSystemGetCudaDriverVersion_v2())),
            "nvml": _value(pynvml.nvmlSystemGetNVMLVersion),
            "devices": [{"name": f"NVIDIA {index}"} | _device(pynvml, handle) for index, handle in enumerate(handles)],
            "topology": _topology(pynvml, handles),
        }
    except pynvml.NVMLError as error:
        return {"why_not": unread(error)}
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, handle: Any) -> Part:
    return {
        "vbios": _value(lambda: nvml.nvmlDeviceGetVbiosVersion(handle)),
        "pcie": _value(lambda: f"generation {nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)}"),
        "pcie_width": _value(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "ecc": _value(lambda: "on" if nvml.nvmlDeviceGetEccMode(handle)[0] else "off"),
        "mig": _value(lambda: "on" if nvml.nvmlDeviceGetMigMode(handle)[0] else "off"),
        "persistence": _value(lambda: "on" if nvml.nvmlDeviceGetPersistenceMode(handle) else "off"),
        "compute_mode": _value(lambda: nvml.nvmlDeviceGetComputeMode(handle)),
        "default_power_cap_watts": _value(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000),
        "largest_clock_mhz": _value(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "nvlinks": _value(lambda: _links(nvml, handle)),
    }


def _links(nvml: Any, handle: Any) -> str:
    up = 0
    for link in range(_MOST_LINKS):
        try:
            up += bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
        except nvml.NVMLError:  # the device has no more links
            break
    return f"{up} up"


def _topology(nvml: Any, handles: list[Any]) -> Part:
    return {
        f"{one}-{other}": _value(partial(_near, nvml, handles[one], handles[other]))
        for one in range(len(handles))
        for other in range(one + 1, len(handles))
    }


def _near(nvml: Any, one: Any, other: Any) -> str:
    level = int(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other))
    return _NEAR.get(level, f"level {level}")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _value(call: Callable[[], Any]) -> Any:
    import pynvml

    try:
        value = call()
    except (pynvml.NVMLError, AttributeError) as error:  # AttributeError: an nvidia-ml-py without this call
        return unread(error)
    return value.decode() if isinstance(value, bytes) else value
