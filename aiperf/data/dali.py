"""NVIDIA DALI as the decoder of large images for an NVIDIA accelerator, where it is installed.

The order of images, their shares and their crops are the same as without it; only decoding and scaling move to the accelerator.
Not tested here: written to DALI's documentation (1.4x and 2.x) on a machine without one; dataset.decoder=libjpeg turns it off.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Batch, Batches, Pass, Split
from aiperf.data.crops import Box, shifts
from aiperf.data.dali_feeding import Feeding
from aiperf.data.dataset_config import ImagesConf
from aiperf.data.decode import Corrupt, size
from aiperf.data.errors import DamagedData
from aiperf.data.pixels import shifted
from aiperf.data.streamed import Streamed
from aiperf.data.visiting_order import Step
from aiperf.errors import BadConfiguration


def is_installed() -> bool:
    """Whether `nvidia.dali` can be imported here; does not import it."""
    return importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None


def is_used(conf: ImagesConf) -> bool:
    """Whether passes for an NVIDIA accelerator will go through DALI. Raises BadConfiguration."""
    match conf.decoder:
        case "libjpeg":
            return False
        case "dali":
            if not is_installed():
                raise BadConfiguration(
                    "dataset.decoder=dali needs NVIDIA DALI, which is not installed: pip install nvidia-dali-cuda120 "
                    "(by your CUDA), or use dataset.decoder=auto"
                )
            if not torch.cuda.is_available():
                raise BadConfiguration(
                    "dataset.decoder=dali needs an NVIDIA accelerator; none here: dataset.decoder=auto"
                )
            return True
        case _:  # auto: until it has been run on a GPU
            return False


def how(conf: ImagesConf) -> str:
    """The decoder's name for the report."""
    return "NVIDIA DALI" if is_used(conf) else "libjpeg-turbo"


def or_else(conf: ImagesConf, streamed: Streamed) -> Split:
    """The split by way of DALI where that is used, as it is otherwise."""
    return DaliSplit(streamed) if is_used(conf) else streamed


class DaliSplit:
    """A streamed split whose passes for a CUDA device are decoded there. Passes for other devices are unchanged."""

    def __init__(self, streamed: Streamed) -> None:
        self.streamed = streamed
        self._pipelines: dict[tuple[torch.device, int], Feeding] = {}

    @property
    def images(self) -> int:
        return self.streamed.images

    def walk(self, walk: Pass) -> Batches:
        return _DaliBatches(self, walk) if walk.device.type == "cuda" else self.streamed.walk(walk)

    def prime(self, walk: Pass) -> None:
        """Builds the pipeline; its first batch is fed when the pass is walked."""
        if walk.device.type == "cuda":
            self.pipeline(walk)
        else:
            self.streamed.prime(walk)

    def close(self) -> None:
        self._pipelines.clear()
        self.streamed.close()

    def pipeline(self, walk: Pass) -> Feeding:
        """The built pipeline for batches of this size on this device."""
        most = max(step.images // walk.ranks + 1 for step in walk.steps(self.images))
        key = (walk.device, most)
        if key not in self._pipelines:
            self._pipelines.clear()  # one at a time: each holds device memory that the next trial may need
            self._pipelines[key] = self._build(most, walk.device)
        return self._pipelines[key]

    def _build(self, most: int, device: torch.device) -> Feeding:
        from nvidia.dali import fn, types
        from nvidia.dali.pipeline import Pipeline

        encoded = self.streamed.encoded
        pipeline = Pipeline(
            batch_size=most,
            num_threads=max(1, self.streamed.images_ahead // (2 * self.streamed.images_of_a_task)),
            device_id=device.index if device.index is not None else torch.cuda.current_device(),
            prefetch_queue_depth=self.streamed.ahead,
        )
        with pipeline:
            images = fn.decoders.image_slice(
                fn.external_source(name="encoded", device="cpu", ndim=1, dtype=types.UINT8),
                start=fn.external_source(name="start", device="cpu", ndim=1, dtype=types.INT32),
                shape=fn.external_source(name="shape", device="cpu", ndim=1, dtype=types.INT32),
                axis_names="HW",
                device="mixed",
                output_type=types.RGB if encoded.channels == 3 else types.GRAY,
                # pixels as they are stored, whatever EXIF says, as libjpeg-turbo and Pillow give them: boxes are of those
                adjust_orientation=False,
            )
            images = fn.resize(
                images, size=[encoded.image, encoded.image], interp_type=types.INTERP_LINEAR, antialias=True
            )
            images = fn.flip(
                images, horizontal=fn.external_source(name="mirror", device="cpu", ndim=0, dtype=types.INT32)
            )
            pipeline.set_outputs(images)
        pipeline.build()
        return Feeding(pipeline, "encoded")


class _DaliBatches:
    def __init__(self, split: DaliSplit, walk: Pass) -> None:
        self._split = split
        self._walk = walk
        self._pipeline = split.pipeline(walk)
        self._order = walk.order(split.images)
        self._steps = walk.steps(split.images)
        self._fed: deque[tuple[Step, NDArray[np.int64]]] = deque()
        self._next = 0

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self._fill()
        if not self._fed:
            raise StopIteration
        step, images = self._fed.popleft()
        pixels = self._take(len(images))
        self._fill()
        streamed, walk = self._split.streamed, self._walk
        if walk.augment and streamed.padding:
            pixels = shifted(pixels, shifts(images, streamed.padding, walk.seed, walk.epoch), streamed.padding)
        return Batch(
            streamed.normalise(pixels, walk.dtype, walk.channels_last),
            streamed.labels[torch.from_numpy(images)].to(walk.device, non_blocking=True),
            len(images),
            step.images,
        )

    def close(self) -> None:
        """Takes what was fed out of the pipeline, so that the next pass begins with its own."""
        self._next = len(self._steps)
        while self._fed:
            _, images = self._fed.popleft()
            self._take(len(images))
        self._pipeline.drain()

    def _fill(self) -> None:
        ahead = self._split.streamed.ahead
        while self._next < len(self._steps) and (len(self._fed) < ahead or not self._pipeline.has_run):
            step = self._steps[self._next]
            self._next += 1
            self._fed.append((step, self._feed(self._order[step.share(self._walk.rank, self._walk.ranks)])))

    def _feed(self, mine: NDArray[np.int64]) -> NDArray[np.int64]:
        """Feeds the encoded images with their boxes; returns the numbers of those that have a readable header."""
        encoded = self._split.streamed.encoded
        crop = encoded.crop(self._walk)
        numbers = crop.numbers(mine, self._walk.seed, self._walk.epoch)

        def one(slot: int) -> tuple[int, NDArray[np.uint8], Box] | None:
            index = int(mine[slot])
            try:
                held = encoded.bytes_of(index)
                return index, np.frombuffer(held, np.uint8), crop.box(*size(held), numbers[slot])
            except (Corrupt, OSError) as error:
                encoded.corrupt.add(encoded.samples.name(index), str(error))
                return None

        read = [found for found in self._split.streamed.pool.map(one, range(len(mine))) if found is not None]
        if not read:
            raise DamagedData(f"a batch has at least one image; all {len(mine)} of this one are corrupt")
        boxes = [box for _, _, box in read]
        self._pipeline.feed(
            {
                "encoded": [held for _, held, _ in read],
                "start": [np.array([box.top, box.left], np.int32) for box in boxes],
                "shape": [np.array([box.height, box.width], np.int32) for box in boxes],
                "mirror": [np.array(box.is_mirrored, np.int32) for box in boxes],
            }
        )
        return np.array([index for index, _, _ in read], np.int64)

    def _take(self, count: int) -> torch.Tensor:
        from nvidia.dali.plugin.pytorch import feed_ndarray

        encoded, device = self._split.streamed.encoded, self._walk.device
        pixels = torch.empty((count, encoded.image, encoded.image, encoded.channels), dtype=torch.uint8, device=device)
        (outputs,) = self._pipeline.outputs()
        feed_ndarray(outputs.as_tensor(), pixels, cuda_stream=torch.cuda.current_stream(device))
        self._pipeline.release()
        return pixels
