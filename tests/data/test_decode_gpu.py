"""JPEG images decoded in batches by torchvision, on the CPU here, against the decoder of single images."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from aiperf.data.crops import Box, CentreCrop
from aiperf.data.dataset_config import ImagenetConf
from aiperf.data.decode import Jpeg, decode, decoded, jpeg, require_nvjpeg
from aiperf.data.opening import open_data
from aiperf.errors import BadConfiguration
from tests.builders.data_set import CPU, make, picture, training

WHOLE, NO_NUMBERS = CentreCrop(1.0), np.zeros(0)


def _file(image: Image.Image, kind: str = "JPEG") -> bytes:
    held = io.BytesIO()
    image.save(held, kind, quality=95)
    return held.getvalue()


def _with_box(encoded: bytes, box: Box) -> Jpeg:
    return Jpeg(torch.frombuffer(bytearray(encoded), dtype=torch.uint8), box)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("box", [Box(20, 30, 120, 100), Box(0, 0, 64, 64, True), Box(5, 5, 40, 30, True)])
def test_a_batch_is_decoded_as_single_images_are(channels: int, box: Box) -> None:
    pictures = [picture(150, 200, 1, number) for number in range(70)]
    files = [_file(each if number % 2 else each.convert("L")) for number, each in enumerate(pictures)]

    images = decoded([_with_box(file, box) for file in files], 64, channels, CPU)

    assert len(images) == len(files)
    for file, image in zip(files, images, strict=True):
        wanted = np.empty((64, 64, channels), np.uint8)
        decode(file, lambda height, width: box, wanted)
        assert image is not None and image.dtype == torch.uint8
        difference = np.abs(image.numpy().astype(float) - wanted)
        assert difference.mean() < 1 and np.percentile(difference, 99) < 6


def test_images_that_nvjpeg_cannot_decode_are_left_to_the_cpu() -> None:
    colour = picture(40, 40, 0, 0)
    ours = [_file(colour), _file(colour.convert("L"))]
    others = [_file(colour, "PNG"), _file(colour.convert("CMYK")), b"\xff\xd8 not a picture", b""]

    assert all(jpeg(each, WHOLE, NO_NUMBERS) is not None for each in ours)
    assert [jpeg(each, WHOLE, NO_NUMBERS) for each in others] == [None] * len(others)


def test_a_refused_image_does_not_take_the_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import io as torchvision_io

    real = torchvision_io.decode_jpeg

    def refusing(files: list[torch.Tensor], *others: object) -> object:
        if any(len(file) == 3 for file in files):
            raise RuntimeError("Error while decoding JPEG images: Failed to get image info: 5")
        return real(files, *others)

    monkeypatch.setattr(torchvision_io, "decode_jpeg", refusing)
    good, bad = _with_box(_file(picture(40, 40, 0, 0)), Box(0, 0, 40, 40)), _with_box(b"bad", Box(0, 0, 1, 1))
    images = decoded([good, bad, good], 32, 3, CPU)
    assert [image is None for image in images] == [False, True, False]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (RuntimeError("decode_jpegs_cuda: torchvision not compiled with nvJPEG support"), BadConfiguration),
    ],
)
def test_other_errors_are_no_refused_image(
    error: RuntimeError, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*arguments: object) -> list[torch.Tensor]:
        raise error

    monkeypatch.setattr("torchvision.io.decode_jpeg", failed)
    with pytest.raises(raised):
        decoded([_with_box(_file(picture(40, 40, 0, 0)), Box(0, 0, 40, 40))], 32, 3, CPU)


def test_the_gpu_s_decoder_needs_a_gpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = make(tmp_path_factory.mktemp("set"), height=300, width=300)
    with (
        open_data(ImagenetConf(root=str(root), cache="none", decoder="gpu")) as data,
        pytest.raises(BadConfiguration, match=r"decoder=gpu needs .*, but found device 'cpu' .*: use .*decoder=cpu"),
    ):
        training(data)


@pytest.mark.parametrize(("cuda", "is_refused"), [("13.0", False), (None, True)])
def test_only_builds_for_cuda_have_nvjpeg(cuda: str | None, is_refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    if is_refused:
        with pytest.raises(BadConfiguration):
            require_nvjpeg(torch.device("cuda", 0))
    else:
        require_nvjpeg(torch.device("cuda", 0))
