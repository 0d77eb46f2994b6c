"""Signatures: good only of what was signed, by whom, and for what; and stock ssh-keygen agrees."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import KeyUnusable
from aiperf.submission.allowed import principals_of, read_allowed
from aiperf.submission.signer import AGENT, signer_of
from aiperf.submission.sshsig import NAMESPACE, NoSignature, is_good, parsed, public_key
from tests.submission.keys import key_file, new_signer

ssh_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen (openssh-client) is not installed"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def signed(folder: Path) -> str:
    return new_signer(folder).sign(b"a manifest")


def test_a_signature_is_good_of_what_was_signed_and_of_nothing_else(folder: Path, signed: str) -> None:
    signature = parsed(signed)

    assert is_good(signature, b"a manifest")
    assert not is_good(replace(signature, namespace="git"), b"a manifest"), "it says that it is for something else"
    assert not is_good(signature, b"a manifest.")
    assert not is_good(signature, b"a manifest", "git")
    assert not is_good(parsed(new_signer(folder, "other").sign(b"a manifest", "git")), b"a manifest")


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_signature_with_one_byte_changed_is_refused_or_the_same(signed: str, at: int, byte: int) -> None:
    changed = bytearray(signed.encode())
    changed[at % len(changed)] = byte
    before = parsed(signed)
    try:
        after = parsed(changed.decode("latin-1"))
    except NoSignature:
        return

    assert after == before or not is_good(after, b"a manifest")


@given(st.text(max_size=200))
def test_text_that_is_no_signature_or_key_is_refused_by_name(text: str) -> None:
    for read in (parsed, public_key):
        with pytest.raises(NoSignature):
            read(text)


@ssh_keygen
def test_stock_ssh_keygen_accepts_our_signature_and_we_accept_its(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    (tmp_path / "content").write_bytes(b"a manifest\n")
    (tmp_path / "allowed").write_text(f"site {(tmp_path / 'key.pub').read_text()}")
    (tmp_path / "ours.sig").write_text(signer_of(tmp_path / "key").sign(b"a manifest\n"))
    verify: list[str | Path] = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "allowed", "-I", "site", "-n", NAMESPACE]

    theirs = subprocess.run(
        [*verify, "-s", tmp_path / "ours.sig"], input=b"a manifest\n", capture_output=True, check=False
    )
    forged = subprocess.run(
        [*verify, "-s", tmp_path / "ours.sig"], input=b"another\n", capture_output=True, check=False
    )
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", tmp_path / "key", "-n", NAMESPACE, tmp_path / "content"],
        check=True,
        capture_output=True,
    )
    ours = parsed((tmp_path / "content.sig").read_text())

    assert (theirs.returncode, forged.returncode) == (0, 255), theirs.stderr
    assert is_good(ours, b"a manifest\n")
    assert ours.key == signer_of(tmp_path / "key").key
    assert (tmp_path / "content.sig").read_text() == (tmp_path / "ours.sig").read_text()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    where = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", where], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has said where it listens
        monkeypatch.setenv(AGENT, str(where))
        try:
            yield where
        finally:
            process.terminate()


@ssh_keygen
@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="ssh-agent (openssh-client) is not installed")
def test_a_key_that_ssh_agent_holds_signs_and_one_that_it_does_not_hold_is_refused(agent: Path, tmp_path: Path) -> None:
    held, other = key_file(tmp_path, "held"), key_file(tmp_path, "other")
    subprocess.run(["ssh-add", "-q", held], env={**os.environ, AGENT: str(agent)}, check=True)

    signer = signer_of(held.with_suffix(".pub"))

    assert signer.sign(b"content") == signer_of(held).sign(b"content")
    with pytest.raises(KeyUnusable, match="ssh-add the key"):
        signer_of(other.with_suffix(".pub")).sign(b"content")


@ssh_keygen
def test_a_key_that_cannot_sign_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AGENT, raising=False)
    for kind, passphrase in (("ed25519", "secret"), ("ecdsa", "")):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", tmp_path / kind], check=True)
    (tmp_path / "none").write_text("no key at all")

    for name, told in (
        ("ed25519", "ssh-add"),
        ("ecdsa", "of another kind"),
        ("ecdsa.pub", "found 'ecdsa-sha2-nistp256'"),
        ("ed25519.pub", "SSH_AUTH_SOCK is not set"),
        ("none", "a key is of kind ssh-ed25519; found 'no'"),
        ("missing", "No such file"),
    ):
        with pytest.raises(KeyUnusable, match=told):
            signer_of(tmp_path / name)


def test_a_list_of_signers_says_for_whom_a_key_signs_when_and_for_what(tmp_path: Path) -> None:
    key, other = key_file(tmp_path), key_file(tmp_path, "other")
    line = key.with_suffix(".pub").read_text()
    (tmp_path / "allowed").write_text(
        f"# who signs\n\nalice@site,bob {line}"
        f'"*@mail" namespaces="git,mail" {line}'
        f'old valid-before="20200101Z" {line}new valid-after=20300101Z {line}'
        "rsa-user ssh-rsa AAAAB3NzaC1yc2E=\n"
    )
    signers = read_allowed(tmp_path / "allowed")
    in_2026, in_2019, in_2031 = 1_790_000_000.0, 1_560_000_000.0, 1_930_000_000.0

    assert principals_of(signers, signer_of(key).key, in_2026) == ("alice@site", "bob")
    assert principals_of(signers, signer_of(key).key, in_2019) == ("alice@site", "bob", "old")
    assert principals_of(signers, signer_of(key).key, in_2031) == ("alice@site", "bob", "new")
    assert principals_of(signers, signer_of(other).key, in_2026) == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("site cert-authority ssh-ed25519 AAAA", "'cert-authority' is not honoured"),
        ("site ssh-ed25519", "line 1"),
        ("site ssh-ed25519 AAAA", "line 1"),
        ("site valid-after=2026 ssh-ed25519 AAAA", "YYYYMMDD"),
        ("site", "line 1"),
    ],
)
def test_a_line_of_signers_that_is_not_honoured_is_refused_by_its_number(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "allowed").write_text(line + "\n")

    with pytest.raises(KeyUnusable, match=told):
        read_allowed(tmp_path / "allowed")
