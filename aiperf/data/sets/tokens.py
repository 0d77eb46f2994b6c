"""Files of tokens: described, mapped into memory, and read through by `prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from aiperf.data.dataset_config import TokensConf
from aiperf.data.description import DataSet, PrepareReport, without_files
from aiperf.data.errors import MissingData
from aiperf.data.files import token_files
from aiperf.data.files.samples import contents_of
from aiperf.data.survey import require_fingerprint, root_of
from aiperf.errors import conflict
from aiperf.files import shown
from aiperf.shell_command import command, option
from aiperf.units import count, size

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData

READ_AT_START = 1 << 30
"""Bytes that a run without a record reads through at its start. Larger sets need `prepare`."""


def _described(
    conf: TokensConf, splits: dict[str, list[token_files.TokenFile]], facts: dict[str, token_files.FileFacts]
) -> DataSet:
    for file in (file for files in splits.values() for file in files):
        facts[file.path.name].require(file, conf.vocabulary)
    contents = contents_of((split, facts[file.path.name].sha256) for split, files in splits.items() for file in files)
    return conf.described(conf.vocabulary, contents, contents)


def describe(conf: TokensConf) -> DataSet:
    root = root_of(conf)
    splits = token_files.files_of(root)
    files = [file for split in splits.values() for file in split]
    facts = token_files.known(files, token_files.read_record(root))
    unknown = [file for file in files if file.path.name not in facts]
    if sum(file.bytes for file in unknown) > READ_AT_START:
        raise MissingData(
            f"every token of a set is checked before a run, and {len(unknown)} files of {shown(root)}, "
            f"{size(sum(file.bytes for file in unknown))}, are not, first {unknown[0].path.name!r}: run "
            + command("prepare", "dataset=tokens", option("dataset.root", root))
        )
    about = _described(conf, splits, facts | {file.path.name: token_files.read_through(file) for file in unknown})
    require_fingerprint(conf, about.fingerprint or "")
    return about


def open_data(conf: TokensConf, cores: int | None) -> OpenData:
    from aiperf.data.sequences import Shard, opened

    about, splits = describe(conf), token_files.files_of(root_of(conf))
    training, validation = (
        [Shard(str(file.path), *file.mapped()) for file in splits[each]] for each in ("train", "val")
    )
    return opened(about, conf, training, validation, how="mapped files")


def prepare(conf: TokensConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    if checksums is not None:
        raise conflict("--checksums", "files of tokens, which have a record", "Leave it out")
    root = root_of(conf)
    splits = token_files.files_of(root)
    files = [file for split in splits.values() for file in split]
    facts = token_files.known(files, token_files.read_record(root))
    unknown = [file for file in files if file.path.name not in facts]
    with Progress(console=out) as progress:
        for file in unknown:
            task = progress.add_task(file.path.name, total=file.tokens)
            facts[file.path.name] = token_files.read_through(file, lambda read, task=task: progress.advance(task, read))
            token_files.write_record(root, facts)  # at once: an interrupted check continues
    about = _described(conf, splits, facts)
    sizes = {split: count(sum(file.tokens for file in of)) for split, of in splits.items()}
    remarks = (
        f"{count(len(files))} files, {count(len(unknown))} read now: {sizes['train']} tokens for training, {sizes['val']} for "
        "validation",
        f"fingerprint {about.fingerprint}; record, which runs read: {root / token_files.RECORD}",
    )
    total = sum(file.bytes for file in files)
    return PrepareReport(without_files(about, pack).description, len(files), len(unknown), total, remarks=remarks)
