"""Signatures by ssh-keygen: valid only for what was signed, by an allowed Ed25519 key, at the time and for this purpose."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import KeyUnusable
from aiperf.submission.signatures import NAMESPACE, principals, read_allowed, sign, signing_key
from tests.builders.submission import key_file

AGENT = "SSH_AUTH_SOCK"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def signed(folder: Path) -> str:
    return sign(key_file(folder), b"a manifest")


def test_a_signature_is_valid_only_for_what_was_signed(folder: Path, signed: str) -> None:
    of_git = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", folder / "key", "-n", "git"],
        input=b"a manifest",
        check=True,
        capture_output=True,
    ).stdout.decode()
    listed = subprocess.run(["ssh-keygen", "-l", "-f", folder / "key"], check=True, capture_output=True, text=True)

    assert signing_key(signed, b"a manifest") == listed.stdout.split()[1]
    assert signing_key(signed, b"a manifest.") is None
    assert signing_key(of_git, b"a manifest") is None
    assert signing_key(signed + " " * 5000, b"a manifest") is None
    assert (NAMESPACE, sign(folder / "key", b"a manifest")) == ("aiperf", signed)


@settings(max_examples=25, deadline=None)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_signature_with_a_changed_byte_is_invalid_or_equal(signed: str, at: int, byte: int) -> None:
    changed = bytearray(signed.encode())
    changed[at % len(changed)] = byte

    found = signing_key(changed.decode("latin-1"), b"a manifest")

    assert found in (None, signing_key(signed, b"a manifest"))


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=200))
def test_other_text_is_no_signature(text: str) -> None:
    assert signing_key(text, b"a manifest") is None


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    where = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", where], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it listens now
        monkeypatch.setenv(AGENT, str(where))
        try:
            yield where
        finally:
            process.terminate()


def test_a_key_signs_from_ssh_agent(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    held = key_file(tmp_path, "held")
    agent = request.getfixturevalue("agent")
    subprocess.run(["ssh-add", "-q", held], env={**os.environ, AGENT: str(agent)}, check=True)
    before = sign(held, b"content")
    held.unlink()

    assert sign(held.with_suffix(".pub"), b"content") == before
    other = key_file(tmp_path, "other")
    other.unlink()
    with pytest.raises(KeyUnusable, match="ssh-add KEY"):
        sign(other.with_suffix(".pub"), b"content")


def test_a_key_that_cannot_sign_is_refused_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key_file(tmp_path)
    monkeypatch.delenv(AGENT, raising=False)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")  # no question on the terminal of who runs the tests
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    for kind, passphrase in (("ed25519", "secret"), ("ecdsa", "")):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", tmp_path / kind], check=True)
    (tmp_path / "none").write_text("swordfish " * 1000)
    os.mkfifo(tmp_path / "fifo")

    for name, expected in (
        ("ed25519", "ssh-add"),
        ("ed25519.pub", "ssh-add"),
        ("ecdsa", "of another kind"),
        ("ecdsa.pub", "is another file"),
        ("none", "is another file"),
        ("fifo", "a FIFO"),
        ("missing", "does not exist"),
    ):
        with pytest.raises(KeyUnusable, match=expected) as refused:
            sign(tmp_path / name, b"content")
        assert "swordfish" not in str(refused.value)


def test_allowed_signers_decide_by_name_time_and_purpose(tmp_path: Path) -> None:
    key, other = key_file(tmp_path), key_file(tmp_path, "other")
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", tmp_path / "rsa"], check=True)
    line, rsa = key.with_suffix(".pub").read_text(), (tmp_path / "rsa.pub").read_text()
    path = tmp_path / "allowed"
    path.write_text(
        f"# who signs\n\nrsa-user {rsa}alice@site,bob {line}"
        f'"*@mail" namespaces="git,mail" {line}'
        f'old valid-before="20200101" {line}new valid-after="20300101" {line}'
    )
    allowed = read_allowed(path)

    def names(of: Path, at_unix: float) -> tuple[str, ...]:
        return principals(allowed, sign(of, b"content"), b"content", at_unix)

    in_2019, in_2026, in_2031 = 1_560_000_000.0, 1_790_000_000.0, 1_930_000_000.0
    # ssh-keygen takes the first line of a key that is valid at the time
    assert names(key, in_2026) == ("alice@site", "bob")
    assert names(other, in_2026) == ()
    for rest, at_unix, expected in (
        (f'old valid-before="20200101" {line}', in_2019, ("old",)),
        (f'old valid-before="20200101" {line}', in_2026, ()),
        (f'new valid-after="20300101" {line}', in_2031, ("new",)),
        (f'new valid-after="20300101" {line}', in_2026, ()),
        (f'mail namespaces="git,mail" {line}', in_2026, ()),
        (f'site namespaces="git,aiperf" {line}', in_2026, ("site",)),
    ):
        path.write_text(rest)
        assert names(key, at_unix) == expected, rest


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("site cert-authority ssh-ed25519 AAAA", "line 2 has 'cert-authority'"),
        ('site namespaces="aiperf",cert-authority ssh-ed25519 AAAA', "line 2 has 'cert-authority'"),
        ("site ssh-ed25519", "line 2: missing key"),
        ("site ssh-ed25519 AAAA", "line 2: invalid key"),
        ("site valid-after=2026 KEY", "line 2: bad options"),
        ("site verify-required=7 KEY", "line 2: bad options"),
        ("site", "line 2: missing key"),
    ],
)
def test_an_unsupported_signer_line_is_rejected_by_number(tmp_path: Path, line: str, expected: str) -> None:
    key = " ".join(key_file(tmp_path).with_suffix(".pub").read_text().split()[:2])
    (tmp_path / "allowed").write_text(f"first {key}\n{line.replace('KEY', key)}\n")

    with pytest.raises(KeyUnusable, match=expected):
        read_allowed(tmp_path / "allowed")


def test_without_ssh_keygen_the_message_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(KeyUnusable, match="openssh-client"):
        sign(tmp_path / "key", b"content")


def test_a_user_without_an_entry_in_passwd_is_told(
    folder: Path, signed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh-keygen refuses any uid that a container platform chose (setpriv --reuid=12345 ssh-keygen …)."""
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\necho 'No user exists for uid 12345' >&2\nexit 255\n")
    program.chmod(0o755)
    (tmp_path / "allowed").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    for call in (
        lambda: sign(folder / "key", b"x"),
        lambda: signing_key(signed, b"another manifest"),
        lambda: read_allowed(tmp_path / "allowed"),
    ):
        with pytest.raises(
            KeyUnusable, match=r"'No user exists for uid 12345'\. Add a line of this user to /etc/passwd"
        ):
            call()
