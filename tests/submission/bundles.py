"""Submissions that were taken apart, changed and put together again, as whoever wants a better place would."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiperf.journal.journal import Journal, read
from aiperf.submission.archive import Content, manifest_of, pack, unpack
from aiperf.submission.signer import Signer

Members = dict[str, bytes]


def members_of(bundle: Path) -> Members:
    """What is in a submission, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: (Path(folder) / name).read_bytes() for name in unpack(bundle, Path(folder)).names}


def repacked(bundle: Path, change: Callable[[Members], None], signer: Signer | None = None) -> Path:
    """The same submission with its members changed, their checksums made anew, and signed anew by whoever did it."""
    members = members_of(bundle)
    change(members)
    contents: dict[str, Content] = dict(members)
    manifest = manifest_of(contents)
    path = bundle.with_name("changed")
    path.unlink(missing_ok=True)
    pack(path, contents, manifest, None if signer is None else signer.sign(manifest))
    return path


def edited(name: str, edit: Callable[[Any], None]) -> Callable[[Members], None]:
    """Changes a member that is JSON."""

    def change(members: Members) -> None:
        told = json.loads(members[name])
        edit(told)
        members[name] = json.dumps(told).encode()

    return change


def rewritten(name: str, change_line: Callable[[int, Any], Any]) -> Callable[[Members], None]:
    """Changes events of a journal, and chains it anew."""

    def change(members: Members) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "before").write_bytes(members[name])
            events = [change_line(number, event) for number, event in enumerate(read(Path(folder) / "before"), 1)]
            with Journal(Path(folder) / "after") as journal:
                journal.append(events)
            members[name] = (Path(folder) / "after").read_bytes()

    return change
