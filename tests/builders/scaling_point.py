"""Points of `scale`, written out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from aiperf.scaling.point import LINES, Point, RankMachine
from morphism import encode, start
from tests.builders.journal import evaluated, proposed

GRAPH = start("digits_small")


def a_point(
    accelerators: int, seconds: Sequence[float], *, started: float = 0.0, batch: int = 32, **changes: Any
) -> Point:
    """Run with 1000 images, these accelerator-seconds by line, and two epochs with a quality of 0.5 and 0.9."""
    fields: dict[str, Any] = {
        "run": f"run-{accelerators}-{started:g}",
        "started_unix": started,
        "network": "n",
        "data": "d",
        "precision": "fp32",
        "threads": "1",
        "is_simulated": False,
        "accelerators": accelerators,
        "hosts": 1,
        "batch": batch,
        "images": 1000,
        "line_seconds": {line: Fraction(each) for line, each in zip(LINES, seconds, strict=True)},
        "machine": RankMachine("cpu", 1e9, 1e9, 1e9),
        "proposal": msgspec.structs.replace(proposed(0), tensor_forward_flops=10**6, tensor_backward_flops=2 * 10**6),
        "start_graph": json.loads(encode(GRAPH)),
        "options": {},
        "epochs": (evaluated(0, 10.0, 0.5), evaluated(0, 20.0, 0.9, epoch=2)),
        "training_images": 1000,
        "samples": "images",
        "target": None,
    }
    return Point(**{**fields, **changes})


def steady(accelerators: int, rate: float, **changes: Any) -> Point:
    """Run with a constant number of images per second, spent in arithmetic alone."""
    return a_point(accelerators, [accelerators * 1000 / rate, 0, 0, 0, 0, 0, 0], **changes)
