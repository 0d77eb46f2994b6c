"""Measured choice of `trainer.precision=auto` on an accelerator, the same for all workers of a run on its kind.

Data sheets do not show whether FP16 or BF16 is faster in a whole step, with batch normalisation, memory bandwidth and
libraries. So short real steps of the starting network are timed in each candidate. FP16 trains with loss scaling
(`precision.scaler`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from math import inf
from pathlib import Path

import torch

from aiperf.atomic_files import new_draft
from aiperf.measure.precision_names import candidates
from aiperf.train.collectives.collective import Collective
from aiperf.train.device_errors import is_out_of_memory
from aiperf.train.device_timer import timeline_of
from aiperf.train.memory.ceiling import blank, rehearse
from aiperf.train.network.module import build
from aiperf.train.precision import Precision
from aiperf.train.trainer_config import TrainerConf
from morphism import Architecture, Graph

BATCH = 64
"""Images per rank of the timed steps. Fits every accelerator. Halved if it does not."""
TIMED_STEPS = 5
WRITING_SECONDS = 10.0
"""Longest time to write the one line of a result."""
FASTER_BY = 0.05
"""Share of a step that a later candidate must save. FP16 steps whose gradients overflow are skipped, and their work is lost."""


def settled(
    conf: TrainerConf, start: Architecture, device: torch.device, collective: Collective, folder: Path
) -> TrainerConf:
    """Return the configuration with `auto` replaced by the measured precision. All other choices are returned unchanged.

    A detector is not measured: `auto` stays, and becomes the first candidate.

    All ranks must call it. `folder`: of the run. The first worker on this kind of accelerator writes its result there
    for all others.
    """
    names = candidates(device)
    if conf.precision != "auto" or len(names) == 1 or not isinstance(start, Graph):
        return conf
    number = 0
    if collective.rank == 0:
        kind = f"{torch.cuda.get_device_name(device)}\n{start.fingerprint}" if device.type == "cuda" else device.type
        name = shared(folder, kind, lambda: fastest(measured(conf, start, device, names)))
        number = names.index(name)
    # while rank 0 measures, the others wait
    return replace(conf, precision=names[round(collective.total([float(number)])[0])])


def fastest(seconds: Mapping[str, float]) -> str:
    """Return the first candidate, or a later one that saves FASTER_BY of its step.

    >>> fastest({"bf16": 1.0, "fp16": 0.97}), fastest({"bf16": 1.0, "fp16": 0.9}), fastest({"fp16": 1.0, "fp32": 2.0})
    ('bf16', 'fp16', 'fp16')
    """
    best, *others = seconds
    for name in others:
        if seconds[name] < seconds[best] * (1 - FASTER_BY):
            best = name
    return best


def measured(conf: TrainerConf, start: Graph, device: torch.device, names: tuple[str, ...]) -> dict[str, float]:
    """Return the seconds of a forward and backward pass per image, by precision.

    All use the largest batch that fits in every precision.
    """
    batch = BATCH
    while True:
        try:
            return {name: _timed(conf, start, device, Precision(name, device.type), batch) / batch for name in names}
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
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
        torch.nn.init.normal_(parameter, std=0.01)  # NaN is slower than numbers on some hardware
    images = blank(start, batch, device, precision, channels_last=conf.channels_last)
    rehearse(network, images, precision)  # chooses kernels
    timeline.anchor()
    begin = timeline.mark()
    for _ in range(TIMED_STEPS):
        rehearse(network, images, precision)
    end = timeline.mark()
    return (timeline.second(end) - timeline.second(begin)) / TIMED_STEPS


def shared(folder: Path, kind: str, measure: Callable[[], str]) -> str:
    """Return the result for a kind from the folder, or measure and write it.

    If several measure at once, the first written result is used by all.
    """
    file = folder / f"precision-{blake2b(kind.encode(), digest_size=8).hexdigest()}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        found = measure()
        own = new_draft(file)
        own.write_text(json.dumps({"kind": kind, "precision": found}, indent=1) + "\n")
        try:
            os.link(own, file)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            _write_if_absent(file, own.read_text())
        finally:
            own.unlink()
    return str(json.loads(_written(file))["precision"])


def _write_if_absent(file: Path, text: str) -> None:
    with suppress(FileExistsError), file.open("x") as new:
        new.write(text)


def _written(file: Path) -> str:
    """Return the content of a file that another process may be writing."""
    deadline = time.monotonic() + WRITING_SECONDS
    while not (text := file.read_text()).endswith("\n"):
        if time.monotonic() > deadline:
            raise OSError(f"{file} holds no whole line after {WRITING_SECONDS:g} s: {text!r}. Remove it")
        time.sleep(0.05)
    return text
