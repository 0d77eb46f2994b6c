"""Keys of sites, as ssh-keygen writes them, and the lists of who may sign."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from aiperf.submission.signer import Signer, signer_of


def key_file(folder: Path, name: str = "key") -> Path:
    """A new private key without a passphrase, and its public half beside it."""
    path = folder / name
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    path.with_suffix(".pub").write_text(signer_of(path).key.line + f" {name}\n")
    return path


def new_signer(folder: Path, name: str = "key") -> Signer:
    """A signer with a key of its own."""
    return signer_of(key_file(folder, name))


def allowed_file(folder: Path, **keys: Path) -> Path:
    """Says of each key whose it is: `site=key_file(…)`."""
    path = folder / "allowed_signers"
    path.write_text("".join(f"{name} {key.with_suffix('.pub').read_text()}" for name, key in keys.items()))
    return path
