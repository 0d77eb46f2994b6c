"""Signing keys of sites, and changed submissions."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf.journal.journal import Journal, read
from aiperf.submission.announcement_file import add
from aiperf.submission.announcements import Announcements, NonceSigned
from aiperf.submission.archive import Content, manifest_of, pack, unpack
from aiperf.submission.signatures import sign, signing_key


def key_file(folder: Path, name: str = "key") -> Path:
    """Create a private key without a passphrase, and its public key next to it."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen (openssh-client) is not installed")
    if os.getuid() not in {entry.pw_uid for entry in pwd.getpwall()}:
        pytest.skip("ssh-keygen needs an entry of this user in /etc/passwd")
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
    return path


def allowed_file(folder: Path, **keys: Path) -> Path:
    """Write a file of allowed signers: `site=key_file(…)`."""
    path = folder / "allowed_signers"
    path.write_text("".join(f"{name} {key.with_suffix('.pub').read_text()}" for name, key in keys.items()))
    return path


def fingerprint(key: Path) -> str:
    """Return the fingerprint of a private key, as `--nonce-by` takes it."""
    found = signing_key(sign(key, b""), b"")
    assert found is not None
    return found


def give_nonce(log: Path, wanted: str, key: Path, at_unix: float = 0.0) -> None:
    """Add the entry that `announce --nonce` adds."""

    def nonce(log: Announcements) -> NonceSigned:
        signed = sign(key, wanted.encode())
        return NonceSigned(
            number=len(log.entries) + 1, previous=log.head, at_unix=at_unix, announcement=wanted, nonce=signed
        )

    add(log, key, nonce)


Members = dict[str, bytes]


def members_of(bundle: Path) -> Members:
    """Return the members of a submission, in order."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: (Path(folder) / name).read_bytes() for name in unpack(bundle, Path(folder)).names}


def repacked(
    bundle: Path, change: Callable[[Members], None], key: Path | None = None, signature: str | None = None
) -> Path:
    """Change members of a submission, make new checksums, and sign with another key or put a given signature there."""
    members = members_of(bundle)
    change(members)
    contents: dict[str, Content] = dict(members)
    manifest = manifest_of(contents)
    path = bundle.with_name("changed")
    path.unlink(missing_ok=True)
    pack(path, contents, manifest, signature if key is None else sign(key, manifest))
    return path


def edited(name: str, edit: Callable[[Any], None]) -> Callable[[Members], None]:
    """Changes a member that is JSON."""

    def change(members: Members) -> None:
        document = json.loads(members[name])
        edit(document)
        members[name] = json.dumps(document).encode()

    return change


def rewritten(name: str, change_line: Callable[[int, Any], Any]) -> Callable[[Members], None]:
    """Change events of a journal and recompute its chain."""

    def change(members: Members) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "before").write_bytes(members[name])
            events = [change_line(number, event) for number, event in enumerate(read(Path(folder) / "before"), 1)]
            with Journal(Path(folder) / "after") as journal:
                journal.append(events)
            members[name] = (Path(folder) / "after").read_bytes()

    return change
