"""Signatures in OpenSSH's format (SSHSIG), Ed25519: `ssh-keygen -Y verify` accepts what is made here, and the other way round.

The format is that of PROTOCOL.sshsig in OpenSSH's sources. Keys of other kinds are refused by name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ED25519 = b"ssh-ed25519"
NAMESPACE = "aiperf"
"""What a signature is for: one that the same key made for git, or for mail, is none for a submission."""

_MAGIC = b"SSHSIG"
_VERSION = 1
_HASHES = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
_BEGIN = "-----BEGIN SSH SIGNATURE-----"
_END = "-----END SSH SIGNATURE-----"
_COLUMNS = 70
_LARGEST = 4096
"""Characters: an Ed25519 signature takes about 300."""


class NoSignature(ValueError):
    """What is no signature, or no key, of this format; the message says why."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 key, by its 32 bytes."""

    raw: bytes

    @property
    def blob(self) -> bytes:
        """As it goes over a wire (RFC 8709)."""
        return string(ED25519) + string(self.raw)

    @property
    def line(self) -> str:
        """As in a .pub file, without comment."""
        return f"{ED25519.decode()} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        return f"SHA256:{base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip('=')}"


@dataclass(frozen=True, slots=True)
class Signature:
    """Taken apart; whether it is good is another question (`is_good`)."""

    key: PublicKey
    namespace: str
    hash_name: bytes
    value: bytes


def public_key(text: str) -> PublicKey:
    """The key of a line `ssh-ed25519 AAAA… comment`. Raises NoSignature."""
    words = text.split()
    if not words or words[0] != ED25519.decode():
        raise NoSignature(f"a key is of kind {ED25519.decode()}; found {words[0] if words else 'none'!r}")
    if len(words) < 2:
        raise NoSignature("a public key is its kind and its base64 text; found the kind alone")
    return _key_of(_base64(words[1]))


def message(content: bytes, namespace: str = NAMESPACE, hash_name: bytes = b"sha512") -> bytes:
    """What a key signs of `content`."""
    digest = _HASHES[hash_name](content).digest()
    return _MAGIC + string(namespace.encode()) + string(b"") + string(hash_name) + string(digest)


def armoured(key: PublicKey, value: bytes, namespace: str = NAMESPACE) -> str:
    """The text of a signature file, of the 64 bytes that `key` made of `message`."""
    inner = string(ED25519) + string(value)
    blob = b"".join(
        [
            _MAGIC,
            struct.pack(">I", _VERSION),
            *map(string, (key.blob, namespace.encode(), b"", b"sha512", inner)),
        ]
    )
    text = base64.b64encode(blob).decode()
    lines = [text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def parsed(text: str) -> Signature:
    """A signature file, taken apart.

    Raises NoSignature: it is none, or one of another kind of key.
    """
    lines = text.strip().split("\n")
    if len(text) > _LARGEST or len(lines) < 3 or lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise NoSignature(f"a signature file is a base64 text between {_BEGIN!r} and {_END!r}")
    blob = _base64("".join(line.strip() for line in lines[1:-1]))
    if not blob.startswith(_MAGIC + struct.pack(">I", _VERSION)):
        raise NoSignature("it does not begin as version 1 of OpenSSH's signatures does")
    key, namespace, reserved, hash_name, inner = _strings(blob[len(_MAGIC) + 4 :], 5)
    kind, value = _strings(inner, 2)
    if kind != ED25519 or len(value) != 64:
        raise NoSignature(f"a signature is of kind {ED25519.decode()}, 64 bytes; found {kind!r} with {len(value)}")
    if hash_name not in _HASHES or reserved:
        raise NoSignature(f"the content is hashed by sha256 or sha512; found {hash_name!r}")
    try:
        return Signature(_key_of(key), namespace.decode(), hash_name, value)
    except UnicodeDecodeError as error:
        raise NoSignature("its namespace is no text") from error


def is_good(signature: Signature, content: bytes, namespace: str = NAMESPACE) -> bool:
    """Whether its key has signed this content, for this purpose. Whose key that is, is another question."""
    if signature.namespace != namespace:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(signature.key.raw).verify(
            signature.value, message(content, namespace, signature.hash_name)
        )
    except InvalidSignature:
        return False
    return True


def string(content: bytes) -> bytes:
    """A string of the SSH protocol: its length as four bytes, then itself."""
    return struct.pack(">I", len(content)) + content


def _strings(blob: bytes, count: int) -> tuple[bytes, ...]:
    """Raises NoSignature where there are not just so many."""
    found = tuple(_cut(blob))
    if len(found) != count:
        raise NoSignature(f"{count} parts were expected; found {len(found)}")
    return found


def _cut(blob: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(blob):
        size = int.from_bytes(blob[at : at + 4], "big")
        if at + 4 + size > len(blob):
            raise NoSignature("it is cut short")
        yield blob[at + 4 : at + 4 + size]
        at += 4 + size


def _key_of(blob: bytes) -> PublicKey:
    kind, _, _ = blob[4:].partition(b"\0")
    if blob[4:15] != ED25519:
        raise NoSignature(f"a key is of kind {ED25519.decode()}; found one of kind {kind[:40]!r}")
    _, raw = _strings(blob, 2)
    if len(raw) != 32:
        raise NoSignature(f"an Ed25519 key has 32 bytes; found {len(raw)}")
    return PublicKey(raw)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoSignature(f"its text is no base64 ({error})") from error
