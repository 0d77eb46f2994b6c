"""Valid FLOPS, the metric of HPC AI500: the score, scaled by the ratio of reached to required accuracy.

Source: HPC AI500 V2.0 (Jiang et al., IEEE CLUSTER 2021; arXiv:2102.12848), section 4.3: VFLOPS = FLOPS · (achieved quality ÷
target quality)ⁿ. For image classification on ImageNet the target is a top-1 accuracy of 0.763 (section 4.1), and n is 5. The
paper defines no target for other images, so other runs have no valid FLOPS. HPC AI500 trains one fixed network and AIPerf
networks of a search, so the two lists cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXPONENT = 5
TARGET_ACCURACY = 0.763
DATA_SET = "imagenet"
CLASSES = 1000


def valid_flops(flops_per_second: float | None, error: float | None, images: Mapping[str, Any]) -> float | None:
    """Return the valid FLOPS of a run from its score, its error and RunStarted.dataset. None if undefined.

    >>> round(valid_flops(100e12, 0.237, {"name": "imagenet", "classes": 1000}) / 1e12, 9)
    100.0
    >>> valid_flops(100e12, 0.237, {"name": "digits", "classes": 10}) is None
    True
    """
    if flops_per_second is None or error is None or not applies(images):
        return None
    return flops_per_second * ((1.0 - error) / TARGET_ACCURACY) ** EXPONENT


def applies(images: Mapping[str, Any]) -> bool:
    """Return True if the paper defines a target for these images."""
    return images.get("name") == DATA_SET and images.get("classes") == CLASSES
