"""One image of an encoded split: read, cropped and decoded, from the host's memory cache if possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiperf.data.batches import DataPass
from aiperf.data.files.samples import Samples
from aiperf.data.hostcache import HostCache, MarkedCorrupt
from aiperf.data.images.corrupt import CorruptImages
from aiperf.data.images.crops import Box, Crop
from aiperf.data.images.decode import Corrupt, decode
from aiperf.data.images.decode_gpu import Jpeg, jpeg


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
    """Cache of the files' bytes."""
    plain_cache: HostCache | None = None
    """Cache of the pixels under the plain crop."""

    def crop(self, walk: DataPass) -> Crop:
        """Return the crop of a pass."""
        return self.training_crop if walk.augment else self.plain_crop

    def bytes_of(self, index: int) -> bytes:
        """Return the encoded image. Raises OSError."""
        if self.encoded_cache is None:
            return self.samples.read(index)
        encoded = self.encoded_cache.read(index)
        if encoded is None:
            encoded = self.samples.read(index)
            self.encoded_cache.write(index, encoded)
        return encoded

    def jpeg(self, index: int, crop: Crop, numbers: NDArray[np.float64]) -> Jpeg | None:
        """Return the image for nvJPEG. None if `into` must decode it, or has its pixels, or reports why it is corrupt."""
        if crop is self.plain_crop and self.plain_cache is not None:
            return None
        try:
            return jpeg(self.bytes_of(index), crop, numbers)
        except (OSError, MarkedCorrupt):
            return None

    def into(self, out: NDArray[np.uint8], index: int, crop: Crop, numbers: NDArray[np.float64]) -> bool:
        """Decode the image into `out` (image, image, channels). Return False for a corrupt image, which is counted.

        Raises DamagedData above the limit of corrupt images.
        """
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
        """Release shared memory."""
        for cache in (self.encoded_cache, self.plain_cache):
            if cache is not None:
                cache.close()
