"""Remarks on builds of torch that cannot use a node's accelerators."""

from __future__ import annotations

import pytest

from tools.torch_build import remark


@pytest.mark.parametrize(
    ("cuda", "hip", "node", "driver", "words"),
    [
        (None, None, "nvidia", "13.0", "a build for processors only"),
        (None, None, "amd", None, "a build for processors only"),
        (None, None, "", None, ""),
        ("13.0", None, "nvidia", "12.4", "built for CUDA 13.0, and the driver of this node supports 12.4"),
        ("12.8", None, "nvidia", "12.4", ""),
        ("12.8", None, "nvidia", "13.0", ""),
        ("13.0", None, "nvidia", None, ""),
        ("13.0", None, "", None, ""),
        (None, "7.0", "amd", None, ""),
    ],
)
def test_a_build_that_cannot_use_the_node_is_named(
    cuda: str | None, hip: str | None, node: str, driver: str | None, words: str
) -> None:
    text = remark(cuda, hip, has_nvidia=node == "nvidia", has_amd=node == "amd", driver_cuda=driver)

    assert words in text and bool(words) == bool(text)
