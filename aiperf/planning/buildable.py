"""What a run's workers would refuse once they build what was configured, asked before anything starts. No torch here.

Each law is that of the part which builds (`train.execution_mode`, `train.precision`, `train.ceiling`, `data.dali`), as far as
it can be known of the workers' shape. What only a device tells (its compute capability, what a batch really takes) the part
itself still refuses.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

from aiperf.config import RunConf
from aiperf.data.dataset_config import FilesConf, SyntheticConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.train.batch_sizes import LEAST, nothing_fits
from aiperf.train.fused import missing as fusion_missing
from aiperf.train.trainer_config import ELEMENT_BYTES
from aiperf.units import size
from morphism import Graph, cost


def accelerators_of(conf: RunConf, accelerators: int) -> int:
    """With how many a worker trains that has so many: the one within the driver's process trains on processors."""
    return 0 if conf.executor == "inline" else accelerators


def require_devices(conf: RunConf, accelerators: int) -> None:
    """Raises BadConfiguration for what needs an accelerator, where a worker trains with none."""
    if accelerators_of(conf, accelerators):
        return
    for option, value, remedy in _of_accelerators(conf):
        raise BadConfiguration(
            f"{option}={value} needs workers with accelerators, and one of this run trains without: take {remedy}, or run "
            "where there are some"
        )


def _of_accelerators(conf: RunConf) -> Iterator[tuple[str, str, str]]:
    """What is configured that needs one: the option, its value, and what to take instead."""
    trainer, data = conf.trainer, conf.dataset
    if trainer.cuda_graphs == "on":
        yield "trainer.cuda_graphs", "on", "off or auto"
    # Triton interprets its kernels on a processor where the environment asks for that: for tests of them
    if trainer.fused in ("norm", "conv") and os.environ.get("TRITON_INTERPRET") != "1":
        yield "trainer.fused", trainer.fused, "off or auto"
    if trainer.precision == "tf32":
        yield "trainer.precision", "tf32", "auto, fp32 or bf16"
    if isinstance(data, FilesConf) and data.decoder == "dali":
        yield "dataset.decoder", "dali", "auto or libjpeg"


def require_packages(conf: RunConf, accelerators: int) -> None:
    """Raises BadConfiguration for what is chosen and not installed on this machine, which trains: nothing is imported."""
    on_accelerators = accelerators_of(conf, accelerators) > 0
    if conf.trainer.collective == "horovod" and importlib.util.find_spec("horovod") is None:
        raise BadConfiguration(
            "trainer.collective=horovod needs the package horovod, which is not installed here: build it (docs/horovod.md), or "
            "take auto or torch"
        )
    fused = conf.trainer.fused
    if fused in ("norm", "conv") and (why := fusion_missing(on_cuda=on_accelerators)) is not None:
        raise BadConfiguration(f"trainer.fused={fused} cannot be had here: {why}: take off or auto")
    if isinstance(conf.dataset, FilesConf) and conf.dataset.decoder == "dali" and not _has_dali():
        raise BadConfiguration(
            "dataset.decoder=dali needs NVIDIA DALI, which is not installed here: pip install nvidia-dali-cuda120 (by your "
            "CUDA), or take auto or libjpeg"
        )


def _has_dali() -> bool:
    return importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None


def require_memory(conf: RunConf, graph: Graph, shape: WorkerShape) -> None:
    """Raises BadConfiguration where the starting graph fits at no batch into the share of a rank's memory that it may fill, or
    a set that is made up in the host's memory does not fit there.

    By the model of `morphism.cost`, and in whatever precision needs least where it is measured: what is refused here cannot be
    trained; what is not may still be too large.
    """
    memory = conf.trainer.memory_limit_bytes
    if memory is None and conf.budget.memory_bytes is None:
        memory = shape.memory_bytes
    if memory is None:
        return  # the budget's is declared, and nobody has said what a rank has
    chosen = ELEMENT_BYTES.get(conf.trainer.precision)
    elements = sorted(set(ELEMENT_BYTES.values())) if chosen is None else [chosen]
    allowed = int(memory * conf.trainer.ceiling_share)
    data = conf.dataset
    if (
        not accelerators_of(conf, shape.accelerators)
        and isinstance(data, SyntheticConf)
        and data.opening_bytes > memory
    ):
        raise BadConfiguration(
            f"each rank makes the synthetic set up in its memory; with dataset.image={data.image}, dataset.channels="
            f"{data.channels}, dataset.classes={data.classes} and dataset.training_images={data.training_images} that takes "
            f"some {size(data.opening_bytes)}, and a rank has {size(memory)}: take less of these, or fewer ranks"
        )
    # copies of the weights in 16 bits can take more than narrower activations save: any precision that fits will do
    needed = {each: cost(graph).training_memory(LEAST, each) for each in elements}
    if min(needed.values()) > allowed:
        raise BadConfiguration(nothing_fits(graph, min(needed, key=lambda each: needed[each]), allowed))
