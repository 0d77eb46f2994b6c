"""Small real folders of images, made by Pillow: smooth pictures, with a different hue for each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


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
