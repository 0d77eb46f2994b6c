"""Who signs here: a private key's file, or a public key whose private half ssh-agent holds (of a key with a passphrase)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from aiperf.errors import KeyUnusable
from aiperf.submission.sshsig import NAMESPACE, NoSignature, PublicKey, armoured, message, public_key, string

AGENT = "SSH_AUTH_SOCK"
AGENT_SECONDS = 60.0
"""A token may wait for a finger on it."""
_SIGN_REQUEST = 13
_SIGN_RESPONSE = 14


@dataclass(frozen=True, slots=True)
class Signer:
    """A key that can sign."""

    key: PublicKey
    _value: Callable[[bytes], bytes]

    def sign(self, content: bytes, namespace: str = NAMESPACE) -> str:
        """The text of a signature file."""
        return armoured(self.key, self._value(message(content, namespace)), namespace)


def signer_of(path: Path) -> Signer:
    """A key's file, as --key names it.

    Raises:
        KeyUnusable: it cannot be read, is of another kind, is encrypted, or no agent holds its private half.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KeyUnusable(
            f"--key is a file with an Ed25519 key; '{path}' cannot be read ({error.strerror}). "
            "Make one: ssh-keygen -t ed25519 -f KEY"
        ) from error
    if not content.lstrip().startswith(b"-----BEGIN"):
        return _of_agent(path, content)
    try:
        private = load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyUnusable(
            f"--key is an OpenSSH private key without a passphrase, or the public half of one that ssh-agent holds; "
            f"'{path}' cannot be used ({error}). With a passphrase: ssh-add {path}, then --key {path}.pub"
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyUnusable(
            f"--key is an Ed25519 key; '{path}' is of another kind. Make one: ssh-keygen -t ed25519 -f KEY"
        )
    return Signer(PublicKey(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)), private.sign)


def _of_agent(path: Path, content: bytes) -> Signer:
    try:
        key = public_key(content.decode("utf-8", "replace"))
    except NoSignature as error:
        raise KeyUnusable(f"--key names an Ed25519 key; '{path}': {error}") from error
    where = os.environ.get(AGENT)
    if not where:
        raise KeyUnusable(
            f"'{path}' is a public key, and its private half is asked of ssh-agent; none is running here ({AGENT} is not "
            "set). Start one: eval $(ssh-agent); ssh-add KEY"
        )
    return Signer(key, lambda content: _asked(where, key, content, path))


def _asked(where: str, key: PublicKey, content: bytes, path: Path) -> bytes:
    """The agent's signature (draft-ietf-sshm-ssh-agent, section 4.4)."""
    request = bytes([_SIGN_REQUEST]) + string(key.blob) + string(content) + struct.pack(">I", 0)
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(AGENT_SECONDS)
            agent.connect(where)
            agent.sendall(string(request))
            answer = _received(agent, int.from_bytes(_received(agent, 4), "big"))
    except OSError as error:
        raise KeyUnusable(
            f"ssh-agent at '{where}' did not sign with '{path}' ({error}); ssh-add -l shows it"
        ) from error
    # answer: the kind of message, then a string that holds the strings 'ssh-ed25519' and the signature's 64 bytes
    if answer[:1] != bytes([_SIGN_RESPONSE]) or len(answer) < 64:
        raise KeyUnusable(
            f"ssh-agent signs with keys that it holds; it would not with '{path}' ({key.fingerprint}): ssh-add the key"
        )
    return answer[-64:]


def _received(agent: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = agent.recv(min(size - len(found), 1 << 16))
        if not more:
            raise ConnectionError("it closed the connection")
        found += more
    return found
