"""Atomic file writes: a file gets its name when it is complete."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from aiperf.atomic_files import draft_of, new_draft, replace_file, write_named


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt, OSError(28, "No space left on device"), ValueError("a fault of ours")]
)
@pytest.mark.parametrize("before", [None, b"the earlier one"])
def test_a_stopped_writer_leaves_only_the_earlier_file(
    stop: BaseException | type[BaseException], before: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    if before is not None:
        path.write_bytes(before)

    with pytest.raises(BaseException) as raised, draft_of(path) as draft:
        draft.write_bytes(b"half of th")
        raise stop

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == (
        {} if before is None else {path.name: before}
    )
    if isinstance(stop, OSError):
        assert (raised.value.errno, raised.value.filename) == (28, str(path))  # type: ignore[attr-defined]
    else:
        assert raised.type is (stop if isinstance(stop, type) else type(stop))


def test_a_file_is_replaced_and_so_is_a_link_of_its_name(tmp_path: Path) -> None:
    strange, path = tmp_path / "strange", tmp_path / "report.html"
    strange.write_bytes(b"somebody's")
    path.symlink_to(strange)

    replace_file(path, b"ours")

    assert (path.read_bytes(), path.is_symlink(), strange.read_bytes()) == (b"ours", False, b"somebody's")


def test_drafts_follow_no_existing_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user guesses the name of the draft and puts a link to a file of the victim there."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs")
    (tmp_path / f".report.json.{os.getpid()}").symlink_to(victim)
    monkeypatch.setattr("aiperf.atomic_files.secrets.token_hex", lambda _: "guessed")
    replace_file(tmp_path / "report.json", b"ours")
    (tmp_path / ".guessed.draft").symlink_to(victim)

    with pytest.raises(FileExistsError, match=r"report\.json"):
        replace_file(tmp_path / "report.json", b"ours again")

    assert victim.read_bytes() == b"theirs"
    assert (tmp_path / "report.json").read_bytes() == b"ours"


def test_names_of_drafts_are_random_and_modes_follow_the_umask(tmp_path: Path) -> None:
    drafts = {new_draft(tmp_path / "report.json") for _ in range(100)}
    umask = os.umask(0o027)
    try:
        replace_file(tmp_path / "report.json", b"ours")
    finally:
        os.umask(umask)

    assert len(drafts) == 100 and not any("report" in draft.name for draft in drafts)
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o640


def test_a_named_file_may_be_a_link_a_pipe_or_a_device(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()

    for path in (link, pipe, Path("/dev/null")):
        write_named(path, b"a graph")
    reader.join(10)

    assert (target.read_bytes(), link.is_symlink(), read, pipe.is_fifo()) == (b"a graph", True, [b"a graph"], True)
    assert not Path("/dev/null").is_file()
    with pytest.raises(IsADirectoryError):
        write_named(tmp_path, b"a graph")


IN_PLACE = {
    "aiperf/atomic_files.py": "the drafts themselves",
    "aiperf/export/csv_files.py": "a draft of the whole folder",
    "aiperf/export/mlflow_store.py": "a draft of the whole folder",
    "aiperf/hpl/mpi.py": "a scratch folder, before its program starts",
    "aiperf/measure/probe.py": "a new folder, before other nodes know its name",
    "searchers/ray_tune.py": "Ray Tune's own folder",
}
"""Modules that write files under their final name, and why no other process finds half of one."""


def test_files_that_others_may_read_are_written_as_drafts() -> None:
    root = Path(__file__).parents[1]
    modules = [module for package in ("aiperf", "cluster", "searchers") for module in (root / package).rglob("*.py")]
    found = {
        str(module.relative_to(root)) for module in modules if re.search(r"\.write_(text|bytes)\(", module.read_text())
    }

    assert found == set(IN_PLACE)
