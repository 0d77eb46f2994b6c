"""Crops, flips and normalisation of whole batches, against one image at a time."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.crops import CentreCrop, ResizedCrop, shifts
from aiperf.data.pixels import Normaliser, PixelNoise, shifted


@given(st.integers(1, 9), st.integers(4, 12), st.sampled_from([1, 3]), st.integers(1, 4), st.integers(0, 2**32))
def test_a_batch_is_cropped_and_mirrored_image_by_image(
    count: int, size: int, channels: int, padding: int, seed: int
) -> None:
    images = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (count, size, size, channels), np.uint8))
    where = shifts(np.arange(count), padding, seed, 0)

    together = shifted(images, where, padding)

    for image, cut, top, left, is_mirrored in zip(
        images, together, where.top, where.left, where.is_mirrored, strict=True
    ):
        padded = torch.nn.functional.pad(image, (0, 0, padding, padding, padding, padding))
        alone = padded[top : top + size, left : left + size]
        assert torch.equal(cut, alone.flip(1) if is_mirrored else alone)


def test_shifts_reach_every_place_and_mirror_half() -> None:
    where = shifts(np.arange(8000), 4, 3, 1)

    assert set(where.top.tolist()) == set(where.left.tolist()) == set(range(9))
    assert abs(where.is_mirrored.mean() - 0.5) < 0.03


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 1000))
def test_a_resized_crop_is_inside_the_image_and_its_bounds(height: int, width: int, image: int) -> None:
    crop = ResizedCrop()

    box = crop.box(height, width, crop.numbers(np.array([image]), 5, 2)[0])

    assert box.top >= 0 and box.left >= 0 and box.height >= 1 and box.width >= 1
    assert box.top + box.height <= height and box.left + box.width <= width
    if 100 <= height <= 3 * width <= 9 * height:
        assert box.height * box.width >= 0.07 * height * width
        assert 0.7 <= box.width / box.height <= 1.4


def test_resized_crops_cover_areas_of_8_to_100_percent_evenly() -> None:
    crop = ResizedCrop()
    numbers = crop.numbers(np.arange(3000), 0, 0)

    boxes = [crop.box(400, 400, row) for row in numbers]

    areas = np.array([box.height * box.width / 160_000 for box in boxes])
    # uneven only near 100 %, where no box of that aspect ratio fits and another attempt is made
    assert 0.079 < areas.min() < 0.09 and areas.max() > 0.97
    assert 0.45 < areas.mean() < 0.54
    assert abs(np.mean([box.is_mirrored for box in boxes]) - 0.5) < 0.04


@given(st.integers(1, 999), st.integers(1, 999))
def test_a_centre_crop_is_a_square_in_the_middle(height: int, width: int) -> None:
    box = CentreCrop(224 / 256).box(height, width, np.zeros(0))

    assert box.height == box.width and abs(box.height - min(height, width) * 0.875) <= 1
    assert abs(2 * box.top + box.height - height) <= 1 and abs(2 * box.left + box.width - width) <= 1


@given(st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), st.booleans(), st.integers(0, 99))
def test_normalised_pixels_are_those_minus_mean_by_deviation(
    dtype: torch.dtype, channels_last: bool, seed: int
) -> None:
    images = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (3, 4, 4, 3), np.uint8))
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)

    out = Normaliser(4, mean, std)(images, dtype, channels_last)

    wanted = (images.permute(0, 3, 1, 2) / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    torch.testing.assert_close(out, wanted.to(dtype), rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-5)
    assert out.is_contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def test_the_bank_of_noises_is_uploaded_once() -> None:
    noise, uploads = PixelNoise((8, 8, 1), 0.1), list[torch.device]()
    bank = noise._bank

    class Spied:
        def to(self, device: torch.device) -> torch.Tensor:
            uploads.append(device)
            return bank.to(device)

    noise._bank = Spied()  # type: ignore[assignment]
    for epoch in range(3):
        noise.added(torch.zeros(4, 8, 8, 1, dtype=torch.uint8), np.arange(4), 0, epoch)

    assert len(uploads) == 1
