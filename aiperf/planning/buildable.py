"""Checks before a run starts that its workers can train with this configuration. This module does not import torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from aiperf.config import RunConf
from aiperf.data.dataset_config import FilesConf, SyntheticConf, WeatherConf, WeatherSyntheticConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.train.trainer_config import ELEMENT_BYTES, least_batch, nothing_fits
from aiperf.units import size
from morphism import Architecture, cost_of

_SIZES = ("image", "height", "width", "channels", "classes", "training_images", "validation_images")
"""Options of the size of a generated data set."""


def accelerators_of(conf: RunConf, accelerators: int) -> int:
    """Return the number of accelerators that a worker uses: `accelerators`, or 0 with executor=inline."""
    return 0 if conf.executor == "inline" else accelerators


def require_devices(conf: RunConf, accelerators: int) -> None:
    """Raise BadConfiguration if an option, such as trainer.precision=tf32, needs accelerators and the workers have none."""
    if accelerators_of(conf, accelerators):
        return
    for option, value, remedy in _of_accelerators(conf):
        raise BadConfiguration(
            f"{option}={value} needs workers with accelerators, but a worker of this run has none: use {remedy}, or run on "
            "machines with accelerators"
        )


def _of_accelerators(conf: RunConf) -> Iterator[tuple[str, str, str]]:
    """Yield options that need an accelerator: option, value and alternative."""
    trainer = conf.trainer
    if trainer.cuda_graphs == "on":
        yield "trainer.cuda_graphs", "on", "off or auto"
    if trainer.precision == "tf32":
        yield "trainer.precision", "tf32", "auto, fp32 or bf16"
    if isinstance(conf.dataset, FilesConf) and conf.dataset.decoder == "gpu":
        yield "dataset.decoder", "gpu", "cpu"


def require_packages(conf: RunConf) -> None:
    """Raise BadConfiguration if an option needs a Python package, such as horovod, that is not installed on this machine."""
    needed: dict[str, tuple[str, str]] = {}
    if conf.trainer.collective == "horovod":
        needed["trainer.collective=horovod"] = ("horovod", "build it (docs/training.md), or use auto or torch")
    if isinstance(conf.dataset, WeatherConf | WeatherSyntheticConf):
        needed[f"dataset={conf.dataset.name}"] = ("pycocotools", "pip install 'aiperf-cluster[weather]'")
    for option, (package, remedy) in needed.items():
        if importlib.util.find_spec(package) is None:
            raise BadConfiguration(f"{option} needs the package {package}, which is not installed here: {remedy}")


def require_memory(conf: RunConf, network: Architecture, shape: WorkerShape) -> None:
    """Raise BadConfiguration if the starting network or a generated data set is too large for the memory of a rank."""
    memory = conf.trainer.memory_limit_bytes
    if memory is None and conf.budget.memory_bytes is None:
        memory = shape.memory_bytes
    if memory is None:
        return  # the budget declares its own memory, and the memory of a rank is unknown
    chosen = ELEMENT_BYTES.get(conf.trainer.precision)
    elements = sorted(set(ELEMENT_BYTES.values())) if chosen is None else [chosen]
    allowed = int(memory * conf.trainer.ceiling_share)
    data = conf.dataset
    if (
        not accelerators_of(conf, shape.accelerators)
        and isinstance(data, SyntheticConf | WeatherSyntheticConf)
        and data.opening_bytes > memory
    ):
        names = [name for name in _SIZES if hasattr(data, name)]
        sizes = ", ".join(f"dataset.{name}={getattr(data, name)}" for name in names)
        raise BadConfiguration(
            f"each rank generates the set {data.name} in its memory. {sizes} need about {size(data.opening_bytes)}, and a rank "
            f"has {size(memory)}: reduce these, or use fewer ranks"
        )
    # 16-bit copies of the weights can need more memory than narrower activations save, so any precision that fits will do
    needed = {each: cost_of(network).training_memory(least_batch(network), each) for each in elements}
    if min(needed.values()) > allowed:
        raise BadConfiguration(nothing_fits(network, min(needed, key=lambda each: needed[each]), allowed))
