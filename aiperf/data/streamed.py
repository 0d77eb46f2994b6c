"""Batches of image files that threads decode before they are needed, for sets too large for memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Batch, Batches, DataPass
from aiperf.data.crops import Box, Crop, shifts
from aiperf.data.decode import Corrupt, Jpeg, decode, decoded, jpeg, require_nvjpeg
from aiperf.data.errors import CorruptImages, DamagedData
from aiperf.data.files.samples import Samples
from aiperf.data.hostcache import HostCache, MarkedCorrupt
from aiperf.data.pixels import Normaliser, shifted
from aiperf.data.visiting_order import OrderStep


@dataclass(frozen=True)
class Encoded:
    """Image files of a split, with the parameters of decoding. Safe to use from many threads."""

    samples: Samples
    image: int
    channels: int
    training_crop: Crop
    plain_crop: Crop
    corrupt: CorruptImages
    encoded_cache: HostCache | None = None
    plain_cache: HostCache | None = None

    def crop(self, walk: DataPass) -> Crop:
        """Random if the pass augments images, otherwise fixed."""
        return self.training_crop if walk.augment else self.plain_crop

    def bytes_of(self, index: int) -> bytes:
        """Return the encoded image, from the cache or from its file."""
        if self.encoded_cache is None:
            return self.samples.read(index)
        encoded = self.encoded_cache.read(index)
        if encoded is None:
            encoded = self.samples.read(index)
            self.encoded_cache.write(index, encoded)
        return encoded

    def jpeg(self, index: int, crop: Crop, numbers: NDArray[np.float64]) -> Jpeg | None:
        """Return a JPEG file with its rectangle, to be decoded by nvJPEG. None if the CPU must process the image."""
        if crop is self.plain_crop and self.plain_cache is not None:
            return None
        try:
            return jpeg(self.bytes_of(index), crop, numbers)
        except (OSError, MarkedCorrupt):
            return None

    def into(self, out: NDArray[np.uint8], index: int, crop: Crop, numbers: NDArray[np.float64]) -> bool:
        """Decode, crop and scale an image into `out`. Return False for a corrupt one, which is counted."""
        cache = self.plain_cache if crop is self.plain_crop else None
        try:
            if cache is not None and (pixels := cache.read(index)) is not None:
                out[...] = np.frombuffer(pixels, np.uint8).reshape(out.shape)
                return True

            def box(height: int, width: int) -> Box:
                return crop.box(height, width, numbers)

            decode(self.bytes_of(index), box, out)
        except (Corrupt, OSError) as error:
            if cache is not None:
                cache.mark_corrupt(index)
            self.corrupt.add(self.samples.name(index), str(error))
            return False
        except MarkedCorrupt:
            self.corrupt.add(self.samples.name(index), "found corrupt by another process of this host")
            return False
        if cache is not None:
            cache.write(index, out.tobytes())
        return True

    def close(self) -> None:
        for cache in (self.encoded_cache, self.plain_cache):
            if cache is not None:
                cache.close()


# Prepared passes that are kept: the next epoch's, and a new trial's.
_PRIMED = 2


@dataclass(slots=True)
class _Ahead:
    step: OrderStep
    mine: NDArray[np.int64]
    pixels: torch.Tensor
    is_whole: NDArray[np.bool_]
    jpegs: dict[int, Jpeg]
    """Images that the accelerator decodes, by their place in the batch. Their pixels are not set."""
    parts: list[Future[None]]

    @property
    def is_done(self) -> bool:
        return all(part.done() for part in self.parts)


@dataclass(slots=True)
class _Uploaded:
    batch: _Ahead
    pixels: torch.Tensor
    labels: torch.Tensor
    copied: torch.cuda.Event | None


@dataclass
class Streamed:
    encoded: Encoded
    normalise: Normaliser
    pool: ThreadPoolExecutor
    workers: int
    ahead: int
    """Batches decoded in advance."""
    padding: int = 0
    """Pixels at each side before a random crop and flip, 0 for neither."""
    on_gpu: bool = field(default=False, kw_only=True)
    when_submitted: Callable[[DataPass], None] = lambda _: None
    """Called when a pass has submitted its last image to the threads. The next pass can begin then."""
    _primed: dict[DataPass, _StreamedBatches] = field(default_factory=dict)
    _upload_streams: dict[torch.device, torch.cuda.Stream] = field(default_factory=dict)

    @property
    def images_of_a_task(self) -> int:
        """With small tasks all threads work on the batch that is needed first."""
        return 4 if self.encoded.image >= 64 else 16

    @property
    def images_ahead(self) -> int:
        return 2 * self.workers * self.images_of_a_task

    @cached_property
    def labels(self) -> torch.Tensor:
        return torch.from_numpy(self.encoded.samples.labels)

    @property
    def images(self) -> int:
        return len(self.encoded.samples)

    def walk(self, walk: DataPass) -> Batches:
        return self._primed.pop(walk, None) or _StreamedBatches(self, walk)

    def prime(self, walk: DataPass) -> None:
        """A begun pass is unchanged. At most two are kept: the oldest one that was never used is cancelled."""
        if walk in self._primed:
            return
        while len(self._primed) >= _PRIMED:
            self._primed.pop(next(iter(self._primed))).close()
        self._primed[walk] = batches = _StreamedBatches(self, walk)
        batches.fill()

    def upload_stream(self, device: torch.device) -> torch.cuda.Stream:
        """Return the CUDA stream on which batches are copied to `device` during the computation of earlier batches."""
        if device not in self._upload_streams:
            self._upload_streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        return self._upload_streams[device]

    def close(self) -> None:
        for batches in self._primed.values():
            batches.close()
        self._primed.clear()
        self.encoded.close()


class _StreamedBatches(Batches):
    def __init__(self, split: Streamed, walk: DataPass) -> None:
        if split.on_gpu:
            require_nvjpeg(walk.device)
        super().__init__(walk, split.images)
        self._split = split
        self._crop = split.encoded.crop(walk)
        self._submitted = 0
        self._ahead: deque[_Ahead] = deque()
        self._uploaded: _Uploaded | None = None
        self._is_closed = False
        self._is_announced = False

    def __next__(self) -> Batch:
        uploaded = self._next_uploaded()
        while not len(uploaded.labels):
            uploaded = self._next_uploaded()
        # The next batch is copied to the device while this one is computed.
        is_next_ready = self._walk.device.type == "cuda" and bool(self._ahead) and self._ahead[0].is_done
        self._uploaded = self._upload(self._ahead.popleft()) if is_next_ready else None
        batch = self._finish(uploaded)
        self.fill()
        # Not in `fill`: a primed pass must not prime the next one, and so on without end.
        if self._submitted == len(self._steps) and not self._is_announced:
            self._is_announced = True
            self._split.when_submitted(self._walk)
        return batch

    def _next_uploaded(self) -> _Uploaded:
        self.fill()
        if not self._ahead and self._uploaded is None:
            raise StopIteration
        uploaded, self._uploaded = self._uploaded or self._upload(self._ahead.popleft()), None
        return uploaded

    def fill(self) -> None:
        while self._submitted < len(self._steps) and not self._is_closed:
            if (
                len(self._ahead) >= self._split.ahead
                and sum(len(a.mine) for a in self._ahead) >= self._split.images_ahead
            ):
                return
            self._ahead.append(self._submit(self._steps[self._submitted]))
            self._submitted += 1

    def close(self) -> None:
        self._is_closed = True
        for ahead in self._ahead:
            for part in ahead.parts:
                part.cancel()
        self._ahead.clear()
        self._uploaded = None

    def _submit(self, step: OrderStep) -> _Ahead:
        walk, encoded = self._walk, self._split.encoded
        mine = self._mine(step)
        shape = (len(mine), encoded.image, encoded.image, encoded.channels)
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=walk.device.type == "cuda")
        rows = pixels.numpy()
        is_whole = np.zeros(len(mine), np.bool_)
        jpegs: dict[int, Jpeg] = {}

        def part(start: int, stop: int) -> None:
            numbers = self._crop.numbers(mine[start:stop], walk.seed, walk.epoch)
            for slot in range(start, stop):
                image, drawn = int(mine[slot]), numbers[slot - start]
                if self._split.on_gpu and (for_gpu := encoded.jpeg(image, self._crop, drawn)) is not None:
                    jpegs[slot], is_whole[slot] = for_gpu, True
                else:
                    is_whole[slot] = encoded.into(rows[slot], image, self._crop, drawn)

        size = self._split.images_of_a_task
        starts = range(0, len(mine), size)
        parts = [self._split.pool.submit(part, start, min(start + size, len(mine))) for start in starts]
        return _Ahead(step, mine, pixels, is_whole, jpegs, parts)

    def _upload(self, batch: _Ahead) -> _Uploaded:
        for part in batch.parts:
            part.result()
        on_gpu = self._decoded_on_gpu(batch)
        pixels = batch.pixels
        numbers = torch.from_numpy(batch.mine[batch.is_whole])
        if not batch.is_whole.all():
            pixels = pixels[torch.from_numpy(batch.is_whole)]
            if (
                not len(numbers) and self._walk.is_training
            ):  # all ranks exchange gradients in each step, so no rank can skip one
                raise DamagedData(
                    f"a training batch must have at least one image, but all {len(batch.mine)} of this one are corrupt, "
                    f"first {self._split.encoded.samples.name(int(batch.mine[0]))!r}: `python -m aiperf prepare` lists them"
                )
        labels, device = self._split.labels[numbers], self._walk.device
        if device.type != "cuda":
            return _Uploaded(batch, pixels.to(device), labels.to(device), None)
        side = self._split.upload_stream(device)
        with torch.cuda.stream(side):
            on_device = pixels.to(device, non_blocking=True), labels.pin_memory().to(device, non_blocking=True)
            places = batch.is_whole.cumsum() - 1
            for slot, image in on_gpu.items():
                on_device[0][places[slot]] = image
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record(side)
        return _Uploaded(batch, *on_device, copied)

    def _decoded_on_gpu(self, batch: _Ahead) -> dict[int, torch.Tensor]:
        """Called by the thread that trains: no other may call CUDA while a graph is captured. The CPU decodes the rest."""
        if not batch.jpegs:
            return {}
        walk, encoded = self._walk, self._split.encoded
        with torch.cuda.stream(self._split.upload_stream(walk.device)):
            tensors = decoded(list(batch.jpegs.values()), encoded.image, encoded.channels, walk.device, walk.waiting)
        images, rows = {}, batch.pixels.numpy()
        for slot, image in zip(batch.jpegs, tensors, strict=True):
            if image is not None:
                images[slot] = image
                continue
            numbers = self._crop.numbers(batch.mine[slot : slot + 1], walk.seed, walk.epoch)[0]
            batch.is_whole[slot] = encoded.into(rows[slot], int(batch.mine[slot]), self._crop, numbers)
        return images

    def _finish(self, uploaded: _Uploaded) -> Batch:
        if uploaded.copied is not None:
            here = torch.cuda.current_stream(self._walk.device)
            here.wait_event(uploaded.copied)
            # allocated on the side stream: their memory may be reused only after this stream has used them
            uploaded.pixels.record_stream(here)
            uploaded.labels.record_stream(here)
        pixels, walk, padding = uploaded.pixels, self._walk, self._split.padding
        mine = uploaded.batch.mine[uploaded.batch.is_whole]
        if walk.augment and padding:
            pixels = shifted(pixels, shifts(mine, padding, walk.seed, walk.epoch), padding)
        images = self._split.normalise(pixels, walk.dtype, walk.channels_last)
        return Batch(images, uploaded.labels, len(mine), uploaded.batch.step.images, mine)
