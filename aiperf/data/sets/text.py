"""Text files as one sequence of bytes for each split: Python's standard library, or the files of a folder."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import platform
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aiperf.data.dataset_config import TextConf
from aiperf.data.description import DataSet, PrepareReport, without_files
from aiperf.data.errors import DamagedData, MissingData
from aiperf.data.files.samples import contents_of
from aiperf.data.survey import require_fingerprint, root_of
from aiperf.errors import BadConfiguration
from aiperf.files import name_text, open_regular, refused, shown
from aiperf.units import count, size

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData

VOCABULARY = 256
MOST_BYTES = 1 << 30
"""Every rank holds the text in memory. Larger ones belong into files of tokens."""
_ONE_OF = 20
_NOT_OF_THE_LIBRARY = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"})


def _files(conf: TextConf) -> tuple[Path, list[str]]:
    """Return the folder and the sorted paths below it."""
    is_library = conf.root is None
    root = Path(sysconfig.get_path("stdlib")) if is_library else root_of(conf)
    found = []
    for folder, below, names in os.walk(root):
        if is_library:
            below[:] = [name for name in below if name not in _NOT_OF_THE_LIBRARY]
        of_root = Path(folder).relative_to(root)
        found += [(of_root / name).as_posix() for name in fnmatch.filter(names, conf.pattern)]
    if not found:
        raise MissingData(
            f"data set {conf.name!r} is of files {conf.pattern}, but found none in {shown(root)}: correct dataset.root or "
            "dataset.pattern"
        )
    return root, sorted(found)


def validates(path: str) -> bool:
    """Return True for one file of 20, by its path below the root."""
    return int(hashlib.sha256(os.fsencode(path)).hexdigest(), 16) % _ONE_OF == 0


def _read(conf: TextConf) -> tuple[DataSet, dict[bool, bytes]]:
    root, paths = _files(conf)
    source = f"standard library of Python {platform.python_version()}" if conf.root is None else None
    digest, lines, total = hashlib.sha256(f"{source}\n".encode()), [], 0
    parts: dict[bool, list[bytes]] = {False: [], True: []}
    for path in paths:
        try:
            with open_regular(root / path) as file:
                text = file.read(MOST_BYTES + 1 - total)
        except OSError as error:
            raise DamagedData(f"a text file must be readable. {refused(error)}") from error
        total += len(text)
        if total > MOST_BYTES:
            raise BadConfiguration(
                f"dataset=text holds at most {size(MOST_BYTES)} in memory, but {shown(root)} has more, first at {path!r}: "
                "write the text as tokens into train.bin and val.bin, and take dataset=tokens"
            )
        parts[validates(path)].append(text)
        of_text = hashlib.sha256(text).hexdigest()
        digest.update(f"{name_text(path)}\t{of_text}\n".encode())
        lines.append(("val" if validates(path) else "train", of_text))
    for is_validation, split in parts.items():
        if sum(map(len, split)) <= conf.length:
            kind = "validation" if is_validation else "training"
            raise MissingData(
                f"a split has more than dataset.length={conf.length} bytes, but of {count(len(paths))} files in {shown(root)} "
                f"the {len(split)} for {kind} have {sum(map(len, split))}: add files (one of {_ONE_OF} validates, by the "
                "SHA-256 of its path)"
            )
    about = conf.described(VOCABULARY, digest.hexdigest(), contents_of(lines), source)
    require_fingerprint(conf, digest.hexdigest())
    return about, {is_validation: b"".join(split) for is_validation, split in parts.items()}


def describe(conf: TextConf) -> DataSet:
    return _read(conf)[0]


def open_data(conf: TextConf, cores: int | None) -> OpenData:
    from aiperf.data.sequences import Shard, opened

    about, texts = _read(conf)
    training, validation = ([Shard(conf.name, np.frombuffer(texts[each], np.uint8))] for each in (False, True))
    return opened(about, conf, training, validation, how="text in memory")


def prepare(conf: TextConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    about, texts = _read(conf)
    root, paths = _files(conf)
    remarks = (
        f"{count(len(paths))} files {conf.pattern} in {root}: {count(len(texts[False]))} bytes for training, "
        f"{count(len(texts[True]))} for validation",
        f"fingerprint {about.fingerprint}; contents {about.contents}",
    )
    return PrepareReport(without_files(about, pack).description, len(paths), len(paths), remarks=remarks)
