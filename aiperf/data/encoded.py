"""One image of an encoded split, by its number: read, cropped and decoded, from this host's memory where it is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiperf.data.batches import Pass
from aiperf.data.corrupt import CorruptImages
from aiperf.data.crops import Box, Crop
from aiperf.data.decode import Corrupt, decode
from aiperf.data.hostcache import HostCache, MarkedCorrupt
from aiperf.data.samples import Samples


@dataclass(frozen=True)
class Encoded:
    """The images of a split as files, and what is known to make pixels of them. Safe to use from many threads."""

    samples: Samples
    image: int
    channels: int
    training_crop: Crop
    plain_crop: Crop
    corrupt: CorruptImages
    encoded_cache: HostCache | None = None
    """The files' bytes."""
    plain_cache: HostCache | None = None
    """The pixels under the plain crop."""

    def crop(self, walk: Pass) -> Crop:
        """The crop of a pass."""
        return self.training_crop if walk.augment else self.plain_crop

    def bytes_of(self, index: int) -> bytes:
        """The encoded image. Raises OSError."""
        if self.encoded_cache is None:
            return self.samples.read(index)
        held = self.encoded_cache.read(index)
        if held is None:
            held = self.samples.read(index)
            self.encoded_cache.write(index, held)
        return held

    def into(self, out: NDArray[np.uint8], index: int, crop: Crop, numbers: NDArray[np.float64]) -> bool:
        """Writes the image into `out` (image, image, channels); False for a corrupt image, which is counted.

        Raises DamagedData beyond the limit.
        """
        cache = self.plain_cache if crop is self.plain_crop else None
        try:
            if cache is not None and (held := cache.read(index)) is not None:
                out[...] = np.frombuffer(held, np.uint8).reshape(out.shape)
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
        """Lets go of what is held in shared memory."""
        for cache in (self.encoded_cache, self.plain_cache):
            if cache is not None:
                cache.close()
