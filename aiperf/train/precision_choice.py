"""Which precision `trainer.precision=auto` is on an accelerator: measured once, and one for all workers of a run on its kind.

Half-precision units are where an accelerator's peak is, and which of FP16 and BF16 is faster in a whole step (batch
normalisation, the memory's bandwidth, libraries) cannot be determined from the sheet. Short real steps of the starting
network are timed in each candidate. FP16 trains with loss scaling (`precision.scaler`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from math import inf
from pathlib import Path

import torch

from aiperf.train.ceiling import blank, rehearse
from aiperf.train.collectives.collective import Collective
from aiperf.train.device_timer import timeline_of
from aiperf.train.module import build
from aiperf.train.precision import Precision, candidates
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph

BATCH = 64
"""Of the timed steps, a rank: what every accelerator can hold; halved where it does not fit."""
TIMED_STEPS = 5
FASTER_BY = 0.05
"""What a later candidate must save of a step: FP16 steps whose gradients overflow are left out, and so is their work."""


def settled(conf: TrainerConf, start: Graph, device: torch.device, collective: Collective, folder: Path) -> TrainerConf:
    """The configuration with `auto` replaced by what was measured; as it is where something else was chosen. All ranks must
    call it. `folder`: the run's, where the first worker on this kind of accelerator leaves what it found for all others."""
    names = candidates(device)
    if conf.precision != "auto" or len(names) == 1:
        return conf
    number = 0
    if collective.rank == 0:
        kind = f"{torch.cuda.get_device_name(device)}\n{start.fingerprint}" if device.type == "cuda" else device.type
        name = shared(folder, kind, lambda: fastest(measured(conf, start, device, names)))
        number = names.index(name)
    # while rank 0 measures, the others wait
    return replace(conf, precision=names[round(collective.total([float(number)])[0])])


def fastest(seconds: Mapping[str, float]) -> str:
    """The first candidate, unless a later one saves FASTER_BY of its step.

    >>> fastest({"bf16": 1.0, "fp16": 0.97}), fastest({"bf16": 1.0, "fp16": 0.9}), fastest({"fp16": 1.0, "fp32": 2.0})
    ('bf16', 'fp16', 'fp16')
    """
    best, *others = seconds
    for name in others:
        if seconds[name] < seconds[best] * (1 - FASTER_BY):
            best = name
    return best


def measured(conf: TrainerConf, start: Graph, device: torch.device, names: tuple[str, ...]) -> dict[str, float]:
    """Seconds of a forward and backward pass of one image, in each precision; all in one batch, that of the greediest."""
    batch = BATCH
    while True:
        try:
            return {name: _timed(conf, start, device, Precision(name, device.type), batch) / batch for name in names}
        except torch.cuda.OutOfMemoryError:
            if batch == 1:
                return dict.fromkeys(names, inf)
            batch //= 2
            torch.cuda.empty_cache()


def _timed(conf: TrainerConf, start: Graph, device: torch.device, precision: Precision, batch: int) -> float:
    precision.switch_on()
    network, timeline = build(start).to(device), timeline_of(device)
    if conf.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.01)  # NaN is slower than numbers on some units
    images = blank(start, batch, device, precision, channels_last=conf.channels_last)
    rehearse(network, images, precision)  # chooses kernels
    timeline.anchor()
    begin = timeline.mark()
    for _ in range(TIMED_STEPS):
        rehearse(network, images, precision)
    end = timeline.mark()
    return (timeline.second(end) - timeline.second(begin)) / TIMED_STEPS


def shared(folder: Path, kind: str, measure: Callable[[], str]) -> str:
    """What was found for a kind: from the folder, else measured and left there. Of several that measure at once, on whatever
    hosts, the first to leave its finding is believed by all."""
    file = folder / f"precision-{blake2b(kind.encode(), digest_size=8).hexdigest()}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        found = measure()
        own = folder / f"{file.name}.{os.uname().nodename}.{os.getpid()}.{time.time_ns()}"
        own.write_text(json.dumps({"kind": kind, "precision": found}, indent=1) + "\n")
        try:
            os.link(own, file)
        except FileExistsError:
            pass
        finally:
            own.unlink()
    return str(json.loads(file.read_text())["precision"])
