"""One process's walk over a set, with the arguments that most tests do not care about."""

from __future__ import annotations

import torch

from aiperf.data.batches import Batch, Batches
from aiperf.data.opened import OpenData

CPU = torch.device("cpu")


def training(
    data: OpenData,
    batch: int = 4,
    *,
    rank: int = 0,
    ranks: int = 1,
    epoch: int = 0,
    seed: int = 1,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = True,
) -> Batches:
    return data.training(
        batch,
        rank=rank,
        ranks=ranks,
        epoch=epoch,
        seed=seed,
        device=CPU,
        channels_last=channels_last,
        dtype=dtype,
    )


def validation(data: OpenData, batch: int = 4, *, rank: int = 0, ranks: int = 1) -> Batches:
    return data.validation(batch, rank=rank, ranks=ranks, device=CPU, channels_last=True, dtype=torch.float32)


def joined(batches: list[Batch]) -> tuple[torch.Tensor, torch.Tensor]:
    """All images and all labels, in order."""
    return torch.cat([b.images for b in batches]), torch.cat([b.targets for b in batches])
