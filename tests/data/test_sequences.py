"""Sequences of tokens: where they are drawn, what their targets are, and files that are refused before anything starts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from aiperf.data.dataset_config import TextConf, TokensConf
from aiperf.data.errors import DamagedData, DataError, MissingData, OtherData
from aiperf.data.files import token_files
from aiperf.data.opening import open_data
from aiperf.data.sets import text
from aiperf.data.sets import tokens as token_sets
from aiperf.data.survey import describe
from aiperf.data.verification import prepare
from aiperf.errors import AiperfError
from tests.builders.data_set import headed, joined, token_set, training, validation


def conf_of(root: Path, **options: object) -> TokensConf:
    base = TokensConf(root=str(root), vocabulary=999, length=16, training_samples=50, validation_samples=20)
    return replace(base, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("shards", [0, 3])
def test_sequences_are_of_the_files_and_targets_are_the_next_tokens(tmp_path: Path, shards: int) -> None:
    of_split = token_set(tmp_path, shards=shards)
    parts = np.array_split(of_split["train"], shards) if shards else [of_split["train"]]

    with open_data(conf_of(tmp_path)) as data:
        batches = list(training(data, 10, epoch=3))
        to_validate = joined(list(validation(data, 7)))

    windows = {part[start : start + 17].tobytes() for part in parts for start in range(len(part) - 16)}
    for images, targets in [joined(batches)]:
        assert torch.equal(images[:, 1:], targets[:, :-1])
        rows = torch.cat([images, targets[:, -1:]], 1).numpy().astype("<u2")
        assert all(row.tobytes() in windows for row in rows)
    first, last = to_validate[0][0].tolist(), to_validate[1][-1].tolist()
    assert first == of_split["val"][:16].tolist() and last == of_split["val"][-16:].tolist()


@given(st.integers(0, 2**31), st.integers(1, 50))
def test_starts_are_spread_over_all_shards(seed: int, epoch: int) -> None:
    from aiperf.data.batches import DataPass
    from aiperf.data.sequences import SequenceSplit, Shard

    lengths = [500, 16, 3000, 17]
    conf = TokensConf(length=16, training_samples=4000)
    split = SequenceSplit(
        [Shard(str(n), np.zeros(n, np.uint16)) for n in lengths], conf, vocabulary=2, is_training=True
    )
    walk = DataPass(8, 0, 1, torch.device("cpu"), True, torch.float32, True, True, epoch, seed)

    shards, starts = split.starts(walk, np.arange(4000))

    assert set(shards.tolist()) <= {0, 2, 3}
    assert all(0 <= start < lengths[shard] - 16 for shard, start in zip(shards, starts, strict=True))
    assert (shards == 0).mean() == pytest.approx(484 / 3469, abs=0.03)


def test_text_is_split_by_the_hash_of_its_path(tmp_path: Path) -> None:
    for number in range(60):
        folder = tmp_path / f"Ördner {number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.txt").write_text(f"{number:04}" * 40)
        (folder / f"{number}.md").write_text("not read")
    conf = TextConf(root=str(tmp_path), pattern="*.txt", length=32, training_samples=30, validation_samples=8)

    with open_data(conf) as data:
        seen = bytes(joined(list(validation(data, 8)))[0].flatten().tolist())

    paths = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.txt")]
    held_out = [path for path in paths if int(hashlib.sha256(path.encode()).hexdigest(), 16) % 20 == 0]
    assert held_out and all(text.validates(path) == (path in held_out) for path in paths)
    numbers = {f"{int(Path(path).stem):04}" for path in held_out}
    assert {seen[start : start + 4].decode() for start in range(0, len(seen), 32)} & numbers


def test_the_fingerprint_of_text_covers_contents_names_and_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        (tmp_path / f"{number}.py").write_text("x = 1\n" * 30)
    conf = TextConf(root=str(tmp_path), length=16)
    known = [describe(conf).fingerprint]
    (tmp_path / "0.py").write_text("x = 2\n" * 30)
    known.append(describe(conf).fingerprint)
    (tmp_path / "0.py").rename(tmp_path / "z.py")
    known.append(describe(conf).fingerprint)

    library = describe(TextConf())
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    other = describe(TextConf())

    assert len({*known, library.fingerprint, other.fingerprint}) == 5
    assert other.recorded["source"] == "standard library of Python 3.99.0" and "source" not in describe(conf).recorded
    with pytest.raises(OtherData, match="all hosts of a run must read the same data set"):
        describe(replace(conf, fingerprint=known[0]))


TOKENS = np.arange(400, dtype="<u2")
FAULTS: dict[str, tuple[str, bytes, type[AiperfError], str]] = {
    "empty": ("train.bin", b"", DamagedData, r"is not empty, but .*train\.bin' has 0 bytes"),
    "odd": ("val.bin", TOKENS.tobytes()[:-1], DamagedData, r"799 bytes, half a token at byte 798"),
    "header": ("train.bin", headed(TOKENS), DamagedData, "begins with llm.c's: give it another name"),
    "beyond": ("val.bin", (TOKENS * 4).tobytes(), DamagedData, r"vocabulary=999, but token 399 of .*val\.bin' is 1596"),
    "short": ("val.bin", TOKENS[:16].tobytes(), DataError, "17 tokens, but the validation files have at most 16"),
}
SHARD_FAULTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not empty"),
    "no header": (TOKENS.tobytes(), "begins with a header of 1024 bytes"),
    "magic": (
        headed(TOKENS, magic=20240801, version=7),
        "magic 20240520 and version 1 at byte 0, but .* has 20240801 and 7",
    ),
    "version": (headed(TOKENS, version=2), "has 20240520 and 2"),
    "truncated": (headed(TOKENS)[:-10], r"400 tokens that byte 8 of its header tells, 1824 bytes, but .* has 1814"),
    "longer": (headed(TOKENS) + b"\0\0", "1826 bytes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_raw_files_with_a_fault_are_named(tmp_path: Path, fault: str) -> None:
    name, content, kind, words = FAULTS[fault]
    token_set(tmp_path)
    (tmp_path / name).write_bytes(content)

    with pytest.raises(kind, match=words):
        open_data(conf_of(tmp_path))


@pytest.mark.parametrize("fault", SHARD_FAULTS)
def test_shards_with_a_fault_are_named(tmp_path: Path, fault: str) -> None:
    content, words = SHARD_FAULTS[fault]
    token_set(tmp_path, shards=2)
    (tmp_path / "small_train_000001.bin").write_bytes(content)

    with pytest.raises(DamagedData, match=words) as raised:
        describe(conf_of(tmp_path))
    assert "small_train_000001.bin" in str(raised.value)


def test_raw_files_and_shards_do_not_share_a_folder(tmp_path: Path) -> None:
    token_set(tmp_path)
    token_set(tmp_path, shards=2)

    with pytest.raises(AiperfError, match="cannot be combined"):
        describe(conf_of(tmp_path))


@pytest.mark.parametrize("shards", [0, 2])
def test_prepare_records_what_runs_then_need_not_read(
    tmp_path: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_set(tmp_path, shards=shards)
    conf, quiet = conf_of(tmp_path), Console(quiet=True)
    before = describe(conf)
    report = prepare(conf, pack=None, out=quiet)
    again = prepare(conf, pack=None, out=quiet)
    reading: list[Path] = []
    read: Callable[[token_files.TokenFile], token_files.FileFacts] = token_files.read_through.__wrapped__

    def noting(file: token_files.TokenFile) -> token_files.FileFacts:
        reading.append(file.path)
        return read(file)

    monkeypatch.setattr(token_files, "read_through", noting)

    after = describe(conf)
    assert not reading and report.files_checked_now == report.files and again.files_checked_now == 0
    changed = next(tmp_path.glob("*val*.bin"))
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    other = describe(conf)

    assert before == after and reading == [changed] and other.fingerprint != before.fingerprint


def test_a_large_set_without_a_record_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_set(tmp_path)
    monkeypatch.setattr(token_sets, "READ_AT_START", 100)

    with pytest.raises(MissingData, match=r"python -m aiperf prepare dataset=tokens dataset\.root="):
        describe(conf_of(tmp_path))
    prepare(conf_of(tmp_path), pack=None, out=Console(quiet=True))
    assert describe(conf_of(tmp_path)).classes == 999


def test_a_file_that_changes_after_the_check_is_named(tmp_path: Path) -> None:
    token_set(tmp_path)
    with open_data(conf_of(tmp_path)) as data:
        with (tmp_path / "train.bin").open("r+b") as file:
            file.write(np.full(4000, 60_000, "<u2").tobytes())
        with pytest.raises(DamagedData, match=r"token \d+ of .*train\.bin' is 60000"):
            list(training(data, 10))
