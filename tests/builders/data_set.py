"""Small real folders of images, and passes over a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from aiperf.data.batches import Batch, Batches
from aiperf.data.opened import OpenData


def picture(height: int, width: int, label: int, number: int) -> Image.Image:
    """Smooth gradient that differs by class and number."""
    rows, columns = np.mgrid[0:height, 0:width]
    red = np.full((height, width), (40 + 60 * label) % 256)
    green = (rows * 200) // height
    blue = (columns * 150 // width + 7 * number) % 256
    return Image.fromarray(np.stack([red, green, blue], axis=2).astype(np.uint8))


def make(
    root: Path,
    *,
    training: int = 6,
    validation: int = 3,
    classes: int = 2,
    height: int = 32,
    width: int = 32,
    suffix: str = ".jpg",
) -> Path:
    """Write root/train/class0/0.jpg …, with the given number of images per class. Return root."""
    for split, images in (("train", training), ("val", validation)):
        for label in range(classes):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for number in range(images):
                picture(height, width, label, number).save(folder / f"{number}{suffix}")
    return root


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
