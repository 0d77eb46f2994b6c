"""Encoded images to pixels, against Pillow's own decoding and scaling."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from aiperf.data.crops import Box, CentreCrop
from aiperf.data.decode import Corrupt, check, decode, decoding_threads
from tests.builders.data_set import make, picture

ROOT = Path(__file__).parents[2]
TEAMS = """
import os, sys
from aiperf.data.dataset_config import ImagenetConf
from aiperf.data.opening import open_data
import torch
torch.set_num_threads(8)
torch.zeros(10**6).add_(1)  # the team of this thread
with open_data(ImagenetConf(root=sys.argv[1], cache="none"), cores=3) as data:
    before = len(os.listdir("/proc/self/task"))
    walk = dict(rank=0, ranks=1, device=torch.device("cpu"), channels_last=True, dtype=torch.float32)
    for epoch in range(3):
        list(data.training(8, epoch=epoch, seed=1, **walk))
    assert torch.get_num_threads() == 8
    print(len(os.listdir("/proc/self/task")) - before)
"""


def _encoded(image: Image.Image, kind: str = "JPEG") -> bytes:
    held = io.BytesIO()
    image.save(held, kind, quality=95)
    return held.getvalue()


def _decoded(encoded: bytes, box: Box, side: int, channels: int = 3) -> NDArray[np.uint8]:
    out = np.empty((side, side, channels), np.uint8)
    decode(encoded, lambda height, width: box, out)
    return out


def _by_pillow(encoded: bytes, box: Box, side: int) -> NDArray[np.float64]:
    with Image.open(io.BytesIO(encoded)) as image:
        region = (box.left, box.top, box.left + box.width, box.top + box.height)
        scaled = image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR, box=region)
    pixels = np.asarray(scaled, np.float64)
    return pixels[:, ::-1] if box.is_mirrored else pixels


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("height, width", [(90, 130), (500, 375), (1200, 1600), (20, 30)])
@pytest.mark.parametrize("is_mirrored", [False, True])
def test_a_box_is_decoded_and_scaled_as_pillow_does(kind: str, height: int, width: int, is_mirrored: bool) -> None:
    encoded = _encoded(picture(height, width, 1, 2), kind)
    box = Box(height // 10, width // 5, height // 2, width // 2, is_mirrored)

    found = _decoded(encoded, box, 64)

    difference = np.abs(found - _by_pillow(encoded, box, 64))
    assert difference.mean() < 1.5
    assert np.percentile(difference, 99) < 6


def test_a_large_image_is_decoded_at_a_fraction_of_its_size() -> None:
    encoded = _encoded(picture(1792, 1792, 1, 0))
    box = CentreCrop(0.875).box(1792, 1792, np.zeros(0))

    assert np.abs(_decoded(encoded, box, 224) - _by_pillow(encoded, box, 224)).mean() < 1.5


def test_an_image_of_the_network_s_size_is_not_scaled() -> None:
    encoded = _encoded(picture(32, 32, 0, 0), "PNG")

    with Image.open(io.BytesIO(encoded)) as image:
        assert np.array_equal(_decoded(encoded, Box(0, 0, 32, 32), 32), np.asarray(image))


def test_grey_cmyk_and_palette_images_are_converted() -> None:
    colour = picture(48, 48, 2, 1)
    box = Box(0, 0, 48, 48)
    wanted = np.asarray(colour, np.float64)

    assert np.abs(_decoded(_encoded(colour.convert("CMYK")), box, 48) - wanted).mean() < 4
    assert np.abs(_decoded(_encoded(colour.convert("P"), "PNG"), box, 48) - wanted).mean() < 20
    grey = np.asarray(colour.convert("L"), np.float64)[..., None]
    assert np.abs(_decoded(_encoded(colour.convert("L")), box, 48) - grey).mean() < 3
    assert np.abs(_decoded(_encoded(colour), box, 48, channels=1) - grey).mean() < 3


def test_stray_bytes_are_not_corruption_but_a_cut_image_is() -> None:
    whole = _encoded(picture(64, 64, 1, 1))
    marker = whole.index(b"\xff\xda")

    for intact in (whole, whole[:marker] + b"\x00\x00\x00" + whole[marker:]):
        check(intact)
    for broken in (
        whole[: len(whole) // 2],
        b"",
        b"\xff\xd8",
        b"no image at all",
        _encoded(picture(9, 9, 0, 0), "PNG")[:60],
    ):
        with pytest.raises(Corrupt):
            check(broken)


def test_decoding_threads_open_no_teams_of_threads(tmp_path: Path) -> None:
    root = make(tmp_path / "set", training=24, validation=2, height=300, width=400)

    more = int(
        subprocess.run(
            [sys.executable, "-c", TEAMS, str(root)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    )

    assert more <= 3, "a thread for each core decodes, and nothing else begins"


def test_only_decoding_threads_compute_with_one_thread() -> None:
    before = torch.get_num_threads()

    with decoding_threads(2) as pool:
        of_threads = set(pool.map(lambda _: torch.get_num_threads(), range(8)))

    assert of_threads == {1}
    assert torch.get_num_threads() == before
