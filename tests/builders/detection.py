"""Small weather images and detectors for tests."""

from __future__ import annotations

import torch

from aiperf.data.dataset_config import WeatherSyntheticConf
from morphism import Detector

FIELDS = WeatherSyntheticConf(training_images=16, validation_images=6, height=32, width=64)
SMALL = Detector("faster_rcnn_small", FIELDS.height, FIELDS.width)
WORDS = (
    "dataset=weather_synthetic",
    "dataset.training_images=16",
    "dataset.validation_images=6",
    "dataset.height=32",
    "dataset.width=64",
    "limits.trials=1",
    "limits.spares=0",
    "hpo=off",
    "batch.default=4",
    "schedule.warmup_seconds=0",
)
"""Options of a run on such images."""


def targets(*boxes: tuple[float, float, float, float, int], images: int = 1, rows: int = 15) -> torch.Tensor:
    """Return the same boxes for each image (images, rows, 5)."""
    found = torch.zeros(images, rows, 5)
    found[:, : len(boxes)] = torch.tensor(boxes).reshape(-1, 5)
    return found
