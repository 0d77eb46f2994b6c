"""Ed25519 signatures by the program ssh-keygen of OpenSSH, and its file of allowed signers."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import IO

from aiperf.errors import KeyUnusable, explained
from aiperf.files import require_file
from aiperf.given_file import read_text
from aiperf.programs import c_locale

NAMESPACE = "aiperf"
"""Purpose of a signature. A signature of the same key for git or mail is not valid here."""
LONGEST = 4096
"""Largest number of characters of a signature file. An Ed25519 signature has about 300."""

_MAKE_ONE = "Make one: ssh-keygen -t ed25519 -f KEY"
_GOOD = re.compile(r"with ED25519 key (SHA256:\S+)$")
_OF_NOBODY = """-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgMtNMxZFS+K+XxWgN0tDOxSuhgr
QMGducqyw7sC86r2UAAAAGYWlwZXJmAAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1
NTE5AAAAQP0UH/hmupu0kcL4qdp8/8eBBb7gmFjr99CfQP/eObTQE21+tSuQlshSh9+/0G
z8KaisNDYAy4VK2Cw2d+XJjwU=
-----END SSH SIGNATURE-----
"""
"""A signature by a key that was discarded. ssh-keygen looks for its key in every line of a file of allowed signers."""


def sign(key: Path, content: bytes) -> str:
    """Return a signature of `content`, as the text of a signature file of ssh-keygen."""
    with explained(key, "cannot be read", _MAKE_ONE, KeyUnusable):
        require_file(key)
        with key.open("rb") as file:
            is_key = file.read(11).startswith((b"-----BEGIN ", b"ssh-ed25519"))
    if not is_key:  # its content is not shown: it may be a secret
        raise KeyUnusable(
            f"--key is an Ed25519 key of OpenSSH, private or public. '{key}' is another file. {_MAKE_ONE}"
        )
    signed = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, content=content)
    if signed.returncode:
        raise KeyUnusable(
            f"--key is a private key, or the .pub of a key that ssh-agent holds, but ssh-keygen does not sign with '{key}' "
            f"({_complaint(signed)}). If the key has a passphrase: eval $(ssh-agent); ssh-add KEY"
        )
    signature = signed.stdout.decode()
    if signing_key(signature, content) is None:
        raise KeyUnusable(f"--key is an Ed25519 key. '{key}' is of another kind. {_MAKE_ONE}")
    return signature


@lru_cache(maxsize=1 << 14)
def signing_key(signature: str, content: bytes) -> str | None:
    """Return the fingerprint (SHA256:…) of the Ed25519 key that signed `content`. None if the signature is not valid."""
    if len(signature) > LONGEST:
        return None
    with _file(signature) as file:
        checked = _ssh_keygen("check-novalidate", "-n", NAMESPACE, "-s", file.name, content=content)
    match = _GOOD.search(checked.stdout.decode(errors="replace").strip())
    return match[1] if checked.returncode == 0 and match else None


def read_allowed(path: Path) -> Path:
    """Check a file of allowed signers (format of ssh-keygen) and return its path unchanged."""
    fix = "name another file: --allowed FILE"
    lines = read_text(path, "a file of allowed signers is a text file", fix, error=KeyUnusable).split("\n")
    for number, line in enumerate(lines, 1):
        if re.match(r"[^#\s]\S*\s+(\S+,)?cert-authority\b", line):
            raise KeyUnusable(
                f"certificates are not supported. '{path}', line {number} has 'cert-authority': remove it"
            )
    with _file(_OF_NOBODY) as file:
        answer = _ssh_keygen("find-principals", "-f", str(path), "-s", file.name)
    for message in answer.stderr.decode(errors="replace").splitlines():
        complaint = re.fullmatch(rf"{re.escape(str(path))}:(\d+): (.*)", message)
        if complaint and lines[int(complaint[1]) - 1].strip():  # ssh-keygen also reports empty lines, and continues
            raise KeyUnusable(
                f"a line of allowed signers is 'NAME [OPTIONS] ssh-ed25519 AAAA…' (man ssh-keygen). '{path}', "
                f"line {complaint[1]}: {complaint[2]}. Correct or remove it"
            )
    return path


def principals(allowed: Path, signature: str, content: bytes, at_unix: float) -> tuple[str, ...]:
    """Return the names in a file of allowed signers that may have made a signature at a certain time."""
    if signing_key(signature, content) is None:
        return ()
    when = f"-Overify-time={time.strftime('%Y%m%d%H%M%S', time.localtime(at_unix))}"
    with _file(signature) as file:
        of_file = ("-f", str(allowed), "-s", file.name, when)
        names = _ssh_keygen("find-principals", *of_file).stdout.decode(errors="replace").split("\n")
        return tuple(
            name
            for name in filter(None, names)
            if _ssh_keygen("verify", *of_file, "-n", NAMESPACE, "-I", name, content=content).returncode == 0
        )


def _ssh_keygen(verb: str, *words: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        # not `programs.ask`: it may ask for a passphrase on the terminal
        answer = subprocess.run(
            ["ssh-keygen", "-Y", verb, *words], input=content, capture_output=True, env=c_locale(), check=False
        )
    except FileNotFoundError as error:
        raise KeyUnusable(
            "signatures are made and checked by OpenSSH's ssh-keygen, which is not installed. "
            "Install the package openssh-client (Debian, Ubuntu) or openssh (Fedora, RHEL)"
        ) from error
    if answer.returncode and (unknown := re.search(rb"No user exists for uid \d+", answer.stderr)):
        raise KeyUnusable(
            f"ssh-keygen failed: '{unknown[0].decode()}'. Add a line of this user to /etc/passwd, or run the command as a user "
            "who has one"
        )
    return answer


def _file(signature: str) -> IO[bytes]:
    file = tempfile.NamedTemporaryFile(prefix="aiperf-signature-")  # noqa: SIM115  # closed by the callers
    file.write(signature.encode(errors="replace"))
    file.flush()
    return file


def _complaint(answer: subprocess.CompletedProcess[bytes]) -> str:
    lines = answer.stderr.decode(errors="replace").splitlines()
    return "; ".join(line for line in lines if "@@" not in line and not line.startswith("Signing data"))[:500]
