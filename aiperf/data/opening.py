"""Opening of a configured data set in this process, and choice of its in-memory caches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.crops import CentreCrop, ResizedCrop
from aiperf.data.dataset_config import DataSetConf, ImagesConf
from aiperf.data.decode import decoding_threads
from aiperf.data.description import DataSet
from aiperf.data.errors import CorruptImages, DamagedData
from aiperf.data.files.samples import Samples
from aiperf.data.hostcache import LEAST_FREE, HostCache, is_held
from aiperf.data.inmemory import InMemory, PixelsInMemory
from aiperf.data.opened import OpenData
from aiperf.data.pixels import Normaliser
from aiperf.data.streamed import Encoded, Streamed
from aiperf.data.survey import listing, module_of
from aiperf.errors import BadConfiguration
from aiperf.files import host_name
from aiperf.system.control_groups import available_bytes, usable_processors

# Smaller sets are copied into each process.
_WORTH_SHARING = 16 * 2**20

# Under cache=auto training images up to this size are kept as pixels.
_SMALL_IMAGE = 64


def open_data(conf: DataSetConf, *, cores: int | None = None) -> OpenData:
    """Open the configured data set for training in this process. Small sets are decoded here, large ones on demand.

    `cores`: number of decoding threads unless dataset.workers is set. Default: all cores that this process may use. Raise
    MissingData (with the expected files), DataError (damaged, changed or other files, or more corrupt images than the limit),
    or BadConfiguration (impossible cache, or a missing package).
    """
    return module_of(conf).open_data(conf, cores)


def open_images(conf: ImagesConf, cores: int | None) -> OpenData:
    """Open a set of image files in class folders or shards, with the caches that its options select."""
    files = listing(conf, host=host_name())
    description = files.describe(conf)
    workers = conf.workers or cores or usable_processors()
    corrupt = CorruptImages(conf.corrupt_limit)
    plain = CentreCrop(224 / 256 if conf.is_resized_crop else 1.0)
    padding = 0 if conf.is_resized_crop else conf.image // 8
    training, validation = (
        Encoded(samples, conf.image, conf.channels, ResizedCrop() if conf.is_resized_crop else plain, plain, corrupt)
        for samples in (files.training, files.validation)
    )
    normalise = Normaliser(conf.image, description.mean, description.std)
    if _keeps_pixels(conf, description):
        with decoding_threads(workers) as pool:
            kept = _keep_pixels(training, pool)
            kept_validation = _keep_pixels(validation, pool)

        def close() -> None:
            kept.cache.close()
            kept_validation.cache.close()

        return OpenData(
            replace(description, training_images=len(kept.labels), validation_images=len(kept_validation.labels)),
            InMemory(kept.stored, kept.labels, normalise, padding),
            InMemory(kept_validation.stored, kept_validation.labels, normalise),
            augment=conf.augment,
            how="pixels in memory" + (", one copy a host" if kept.is_shared else ""),
            corrupt_images=corrupt,
            on_close=close,
        )
    training, validation, kind = _with_caches(conf, training, validation)
    pool = decoding_threads(workers)
    on_gpu = conf.decoder == "gpu"

    def split(encoded: Encoded) -> Streamed:
        return Streamed(encoded, normalise, pool, workers, conf.prefetch_batches, padding, on_gpu=on_gpu)

    streamed, streamed_validation = split(training), split(validation)
    opened = OpenData(
        description,
        streamed,
        streamed_validation,
        augment=conf.augment,
        how=f"{'nvJPEG' if on_gpu else 'libjpeg-turbo'}, {workers} decoding threads, {kind}",
        corrupt_images=corrupt,
        on_close=lambda: pool.shutdown(cancel_futures=True),
    )
    streamed.when_submitted = opened.begin_what_follows
    return opened


def _keeps_pixels(conf: ImagesConf, description: DataSet) -> bool:
    if conf.cache == "decoded":
        return True
    images = description.training_images + description.validation_images
    pixels = images * conf.image**2 * conf.channels
    return (
        conf.cache == "auto"
        and not conf.is_resized_crop
        and conf.image <= _SMALL_IMAGE
        and pixels <= (available_bytes() - LEAST_FREE) // 4
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    stored: PixelsInMemory
    labels: NDArray[np.int64]
    cache: HostCache
    is_shared: bool


def _keep_pixels(encoded: Encoded, pool: ThreadPoolExecutor) -> _Kept:
    count = len(encoded.samples)
    key, shape, sizes = _as_pixels(encoded)
    total = int(sizes.sum())
    is_shared = total >= _WORTH_SHARING
    cache = HostCache(key, sizes, is_shared=is_shared)
    keeping = replace(encoded, plain_cache=cache)

    def keep(start: int) -> None:
        scratch = np.empty(shape, np.uint8)
        for index in range(start, min(start + 64, count)):
            if cache.state(index) is not True:
                keeping.into(scratch, index, keeping.plain_crop, _NO_NUMBERS)

    _all(pool, keep, count)
    states = [cache.state(index) for index in range(count)]
    if None in states:
        cache.close()
        raise BadConfiguration(
            f"the pixels of a split, {total / 2**30:.1f} GiB, must leave {LEAST_FREE / 2**30:.1f} GiB of memory free, but "
            f"{available_bytes() / 2**30:.1f} GiB are free after {states.count(True)} of {count} images. Use "
            "dataset.cache=none, or give the container more memory"
        )
    is_whole = np.array(states, np.bool_)
    rows = np.nonzero(is_whole)[0]
    if not len(rows):
        raise DamagedData(
            f"a split must have at least one valid image, but all {count} are corrupt, first {encoded.samples.name(0)!r}: "
            "copy the data set again. `python -m aiperf prepare` lists the errors"
        )
    pixels = torch.from_numpy(cache.records().reshape(count, *shape))
    stored = PixelsInMemory(pixels, None if is_whole.all() else rows)
    return _Kept(stored, encoded.samples.labels[rows], cache, is_shared)


_NO_NUMBERS = np.zeros(0)


def _all(pool: ThreadPoolExecutor, task: Callable[[int], None], count: int) -> None:
    try:
        for _ in pool.map(task, range(0, count, 64)):
            pass
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise


def _with_caches(conf: ImagesConf, training: Encoded, validation: Encoded) -> tuple[Encoded, Encoded, str]:
    if conf.cache == "none":
        return training, validation, "nothing kept in memory"
    room = available_bytes()
    sizes = [encoded.samples.sizes() for encoded in (training, validation)]
    keys = [f"encoded {_fingerprint(encoded.samples)}" for encoded in (training, validation)]
    held = all(is_held(key, each) for key, each in zip(keys, sizes, strict=True))
    total = sum(int(each.sum()) for each in sizes)
    if not (held or total <= room // 2):
        if conf.cache == "encoded":
            raise BadConfiguration(
                f"dataset.cache=encoded keeps {total / 2**30:.1f} GiB in memory and needs twice that, but "
                f"{room / 2**30:.1f} GiB are free. Use dataset.cache=auto, or give the container more memory"
            )
        return training, *_with_plain_cache(validation, room, "nothing kept in memory")
    training = replace(training, encoded_cache=HostCache(keys[0], sizes[0]))
    if conf.cache == "encoded":
        return training, replace(validation, encoded_cache=HostCache(keys[1], sizes[1])), "files kept in memory"
    validation, kind = _with_plain_cache(validation, room - total, "files kept in memory")
    if validation.plain_cache is None:
        validation = replace(validation, encoded_cache=HostCache(keys[1], sizes[1]))
    return training, validation, kind


def _with_plain_cache(validation: Encoded, room: int, kind: str) -> tuple[Encoded, str]:
    key, _, sizes = _as_pixels(validation)
    if not (is_held(key, sizes) or int(sizes.sum()) <= room // 4):
        return validation, kind
    return replace(validation, plain_cache=HostCache(key, sizes)), f"{kind}, validation images as pixels"


def _as_pixels(encoded: Encoded) -> tuple[str, tuple[int, int, int], NDArray[np.int64]]:
    """Return what a cache of a split's pixels is shared by, the shape of an image, and the bytes of each image."""
    shape = (encoded.image, encoded.image, encoded.channels)
    sizes = np.full(len(encoded.samples), int(np.prod(shape)), np.int64)
    return f"{_fingerprint(encoded.samples)} {encoded.plain_crop} {shape}", shape, sizes


def _fingerprint(samples: Samples) -> str:
    """Return a hash that changes with any file's name, size or time of change. With an index, it changes with the index."""
    if samples.checksum is not None:
        return f"{samples.checksum} {samples.name(0)}"
    sizes, times = samples.sizes_and_times
    digest = hashlib.sha256()
    for index in range(len(samples)):
        digest.update(samples.name(index).encode(errors="surrogateescape"))
    digest.update(sizes.tobytes())
    digest.update(times.tobytes())
    return digest.hexdigest()
