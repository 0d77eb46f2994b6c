"""Valid FLOPS, the metric by which HPC AI500 ranks: the score, held against an accuracy that was to be reached.

Source: HPC AI500 V2.0 (Jiang et al., IEEE CLUSTER 2021; arXiv:2102.12848), section 4.3: VFLOPS = FLOPS · (achieved quality ÷
target quality)ⁿ. For image classification on ImageNet the target is a top-1 accuracy of 0.763 (section 4.1), and n is 5. The
paper gives no target for other images, so there is no valid FLOPS of a run on others. Its FLOPS are those of one fixed network,
ours those of networks that a search grew: the two lists cannot be compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXPONENT = 5
TARGET_ACCURACY = 0.763
DATA_SET = "imagenet"
CLASSES = 1000


def valid_flops(flops_per_second: float | None, error: float | None, images: Mapping[str, Any]) -> float | None:
    """Of a run with that score and error on those images (RunStarted.dataset); None where it is not defined.

    >>> round(valid_flops(100e12, 0.237, {"name": "imagenet", "classes": 1000}) / 1e12, 9)
    100.0
    >>> valid_flops(100e12, 0.237, {"name": "digits", "classes": 10}) is None
    True
    """
    if flops_per_second is None or error is None or not applies(images):
        return None
    return flops_per_second * ((1.0 - error) / TARGET_ACCURACY) ** EXPONENT


def applies(images: Mapping[str, Any]) -> bool:
    """Whether there is a target for these images."""
    return images.get("name") == DATA_SET and images.get("classes") == CLASSES
