"""Keys of sites, made by ssh-keygen, and files of allowed signers. Tests that need them are skipped without ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def key_file(folder: Path, name: str = "key") -> Path:
    """Create a private key without a passphrase, and its public key next to it."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen (openssh-client) is not installed")
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
    return path


def allowed_file(folder: Path, **keys: Path) -> Path:
    """Write a file of allowed signers: `site=key_file(…)`."""
    path = folder / "allowed_signers"
    path.write_text("".join(f"{name} {key.with_suffix('.pub').read_text()}" for name, key in keys.items()))
    return path
