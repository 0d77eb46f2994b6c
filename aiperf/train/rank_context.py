"""State of a rank (training process) for the whole run: the opened data set, the device and the exchange with other ranks."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from typing import Final

import torch

from aiperf.data.opened import OpenData
from aiperf.train.checkpoints.checkpoint import Writer
from aiperf.train.collectives.collective import Collective, Scaler
from aiperf.train.device import Timeline, timeline_of
from aiperf.train.execution_mode import EAGER, GUESSES, ExecutionMode, Expectations, modes_of
from aiperf.train.heartbeat import RankHeartbeat
from aiperf.train.memory_limits import memory_of_rank
from aiperf.train.precision import Precision, choose
from aiperf.train.task import Classification, LanguageModel, Task
from aiperf.train.trainer_config import TrainerConf
from morphism import Architecture, Graph, TokenNumbers


@dataclass(slots=True)
class RankContext:
    """State of one rank (training process). `RankContext.make` derives it from the configuration."""

    conf: TrainerConf
    data: OpenData
    start: Architecture
    device: torch.device
    collective: Collective
    precision: Precision
    timeline: Timeline
    memory_bytes: int
    """Bytes that each rank may use for training. Equal on all ranks."""
    writer: Writer | None
    """Writer of checkpoints on rank 0. None on other ranks."""
    task: Task
    liveness: RankHeartbeat = field(default_factory=RankHeartbeat)
    modes: tuple[ExecutionMode, ...] = (EAGER,)
    """Modes in which a step may be executed, the cheapest to prepare first."""
    expected: Expectations = field(default_factory=lambda: Expectations(GUESSES))
    compiler: str = "inductor"
    reads_code: bool = False
    """True if another rank of this host compiles the same networks for an equal device, before this one."""

    @staticmethod
    def make(
        conf: TrainerConf,
        data: OpenData,
        start: Architecture,
        device: torch.device,
        collective: Collective,
        writer: Writer | None,
        liveness: RankHeartbeat | None = None,
        on_host: int = 1,
        local_rank: int = 0,
    ) -> RankContext:
        """Build the state of a rank, and set torch's process-wide precision switches. All ranks must call it.

        `liveness`: heartbeat of this rank, None: no process reads it. `on_host`: number of ranks on this rank's host.
        `local_rank`: its number among them. Raise BadConfiguration for a precision or execution mode that the device lacks, or
        for a detector without pycocotools.
        """
        modes = modes_of(conf, torch.cuda.get_device_name(device) if device.type == "cuda" else "")
        liveness = liveness or RankHeartbeat()
        precision = choose(conf.precision, device)
        precision.switch_on()
        if device.type == "cpu":
            keep_freed_memory()
        elif torch.version.hip is not None:
            for name, value in MIOPEN.items():
                os.environ.setdefault(name, value)
        return RankContext(
            conf=conf,
            data=data,
            start=start,
            device=device,
            collective=collective,
            precision=precision,
            timeline=timeline_of(device, liveness.device_wait),
            memory_bytes=memory_of_rank(conf, device, collective, on_host),
            writer=writer,
            task=_task_of(start, conf),
            liveness=liveness,
            modes=modes,
            reads_code=local_rank > 0 and not device.index,  # the number of a device is a part of compiled code
        )

    @property
    def is_first(self) -> bool:
        return self.collective.rank == 0

    def scaler(self) -> Scaler | None:
        """None if the precision needs none, or if the option trainer.loss_scaling is off."""
        return None if self.conf.loss_scaling == "off" else self.precision.scaler()

    def all_agree(self, own: bool) -> bool:
        """True if `own` is True on every rank. All ranks must call it."""
        return self.collective.total([0.0 if own else 1.0])[0] == 0.0


def _task_of(start: Architecture, conf: TrainerConf) -> Task:
    if isinstance(start, Graph):
        assert conf.label_smoothing is not None, "set by the configuration"
        if isinstance(start.shapes[0], TokenNumbers):
            return LanguageModel(conf.label_smoothing)
        return Classification(conf.label_smoothing)
    from aiperf.train.detection import Detection  # imports torchvision's detectors

    return Detection()


MIOPEN: Final = {
    "PYTORCH_MIOPEN_SUGGEST_NHWC": "1",
    "PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM": "1",
    "MIOPEN_FIND_MODE": "FAST",
}
"""Variables on AMD accelerators, unless the user set them. Without the first two, torch converts channels_last before and after
each convolution and normalisation. MIOpen's usual search for kernels may take tens of minutes."""
# malloc.h
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4
_NEVER: Final = 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep freed memory for later allocations: new pages in every step cost processor time. False without glibc."""
    mallopt = ctypes.CDLL(None).mallopt
    # no separate mappings, and no trimming of the heap
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
