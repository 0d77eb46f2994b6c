"""Small real folders of images, and passes over a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
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


MAGIC, VERSION = 20240520, 1


def headed(tokens: NDArray[np.uint16], *, magic: int = MAGIC, version: int = VERSION, told: int | None = None) -> bytes:
    """Return a shard as llm.c writes it: 256 int32, then the tokens."""
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(tokens) if told is None else told
    return header.tobytes() + tokens.tobytes()


def token_set(
    root: Path, *, shards: int = 0, vocabulary: int = 999, tokens: int = 4000
) -> dict[str, NDArray[np.uint16]]:
    """Write random tokens as nanoGPT's files, or as `shards` training shards of llm.c. Return the tokens by split."""
    root.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(46)
    drawn = {split: generator.integers(0, vocabulary, tokens).astype("<u2") for split in ("train", "val")}
    for split, of_split in drawn.items():
        if not shards:
            (root / f"{split}.bin").write_bytes(of_split.tobytes())
        for number, part in enumerate(np.array_split(of_split, shards if split == "train" else 1) if shards else ()):
            (root / f"small_{split}_{number:06}.bin").write_bytes(headed(part))
    return drawn


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
