"""The file of a submission: the same bytes for the same contents, and nothing of a hostile one gets past its header."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf.errors import BundleRefused
from aiperf.submission.archive import MANIFEST, MEMBER, SIGNATURE, Content, DiskTooSmall, manifest_of, pack, unpack
from aiperf.submission.inspect_submission import inspect

NAMES = st.from_regex(MEMBER, fullmatch=True)
A, B, JOURNAL = "runs/1/telemetry/0.jsonl", "runs/1/telemetry/1.jsonl", "runs/1/journal.jsonl"
TAME = {"submission.json": b"{}", JOURNAL: b"a line\n" * 100, A: b""}

Member = tuple[tarfile.TarInfo, bytes]


def packed(folder: Path, contents: dict[str, Content], signature: str | None = "a signature\n") -> Path:
    path = folder / "bundle"
    path.unlink(missing_ok=True)
    pack(path, contents, manifest_of(contents), signature)
    return path


def member(name: str, content: bytes = b"", **others: object) -> Member:
    """Archive of `submit` with the given changes."""
    header = tarfile.TarInfo(name)
    header.size, header.mode = len(content), 0o644
    for field, value in others.items():
        setattr(header, field, value)
    return header, content


END = b"\0" * 1024


def archive(members: Sequence[Member], form: Literal[0, 1, 2] = tarfile.USTAR_FORMAT, after: bytes = END) -> bytes:
    """A gzipped tar of anything. With the usual end it fills records of 10,240 bytes, as tar's do."""
    whole = b""
    for header, content in members:
        whole += header.tobuf(form, "utf-8", "surrogateescape") + content + b"\0" * (-len(content) % 512)
    whole += after
    return gzip.compress(whole + b"\0" * (-len(whole) % tarfile.RECORDSIZE if after == END else 0), mtime=0)


def with_manifest(*members: Member, extra: Sequence[str] = ()) -> list[Member]:
    """The members after a manifest of them."""
    lines = [f"{hashlib.sha256(content).hexdigest()}  {header.name}\n" for header, content in members]
    lines += [f"{'0' * 64}  {name}\n" for name in extra]
    return [member(MANIFEST, "".join(lines).encode()), *members]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.dictionaries(NAMES, st.binary(max_size=1500), max_size=6))
def test_packing_round_trips_and_is_deterministic(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]
) -> None:
    folder, into = tmp_path_factory.mktemp("packed"), tmp_path_factory.mktemp("unpacked")

    path = packed(folder, dict(contents))
    before = path.read_bytes()
    unpacked = unpack(path, into)

    assert {name: (into / name).read_bytes() for name in unpacked.names} == contents
    assert (unpacked.changed, unpacked.signature) == ((), "a signature\n")
    assert packed(folder, dict(contents)).read_bytes() == before


def test_stock_tar_and_sha256sum_read_it(tmp_path: Path) -> None:
    path = packed(tmp_path, dict(TAME))
    into = tmp_path / "into"
    into.mkdir()

    subprocess.run(["tar", "xzf", path, "-C", into], check=True)
    checked = subprocess.run(["sha256sum", "-c", MANIFEST], cwd=into, capture_output=True, text=True, check=True)

    assert checked.stdout.splitlines() == [f"{name}: OK" for name in TAME]


def _with(added: Member) -> list[Member]:
    return with_manifest(added)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a symbolic link": (archive(_with(member(A, type=tarfile.SYMTYPE, linkname="/etc/passwd"))), "is a symbolic link"),
    "a hard link": (archive(_with(member(A, type=tarfile.LNKTYPE, linkname="x"))), "is a hard link"),
    "a folder": (archive(_with(member(A, type=tarfile.DIRTYPE))), "is a folder"),
    "a device": (archive(_with(member(A, type=tarfile.CHRTYPE, devmajor=1, devminor=3))), "is of type"),
    "a pipe": (archive(_with(member(A, type=tarfile.FIFOTYPE))), "is of type"),
    "a sparse file": (archive(_with(member(A, type=tarfile.GNUTYPE_SPARSE))), "is of type"),
    "a path out of the folder": (archive(_with(member("../outside", b"x"))), "found '../outside'"),
    "a path out in the middle": (archive(_with(member("a/../../outside", b"x"))), "found 'a/../../outside'"),
    "an absolute path": (archive(_with(member("/tmp/outside", b"x"))), "found '/tmp/outside'"),
    "a path of Windows": (archive(_with(member("..\\outside", b"x"))), "members have the names"),
    "a hidden file": (archive(_with(member("runs/.bashrc", b"x"))), "found 'runs/.bashrc'"),
    "a name with a newline": (archive([member(MANIFEST), member("a\nb")]), "members have the names"),
    "a name that is no ASCII": (archive([member(MANIFEST), member("jürnal")]), "members have the names"),
    "an empty name": (archive([member(MANIFEST), member("")]), "members have the names"),
    "a longer name than there is": (
        archive([member(MANIFEST), member("n" * 100 + "/" + "n" * 100)]),
        "members have the names",
    ),
    "a name twice": (archive([*with_manifest(member(A, b"1")), member(A, b"2")]), "occurs again"),
    "a name twice, listed twice": (archive(with_manifest(member(A, b"1"), member(A, b"2"))), "for another file"),
    "a manifest twice": (archive([*with_manifest(), member(MANIFEST)]), "occurs again"),
    "a signature after all": (archive([*with_manifest(member(A)), member(SIGNATURE)]), "occurs again"),
    "two signatures": (archive([member(MANIFEST), member(SIGNATURE), member(SIGNATURE)]), "occurs again"),
    "a member that is not listed": (archive([*with_manifest(member(A)), member(B)]), "is not listed"),
    "a member that is missing": (archive(with_manifest(member(A), extra=[B])), "is missing"),
    "no manifest": (archive([member(A)]), "the first member of a submission is MANIFEST"),
    "no member": (archive([]), "the first member of a submission is MANIFEST"),
    "a manifest of something else": (archive([member(MANIFEST, b"../../etc\n")]), "is one of sha256sum's"),
    "a manifest that leads out": (archive(with_manifest(extra=["../outside"])), "found '../outside'"),
    "a manifest of bytes": (archive([member(MANIFEST, b"\xff\n")]), "is one of sha256sum's"),
    "a manifest without measure": (archive([member(MANIFEST, b"\n" * (5 << 20))]), "MANIFEST has at most"),
    "a signature without measure": (archive([member(MANIFEST), member(SIGNATURE, b"x" * 5000)]), "has at most 4096"),
    "a header of pax": (
        archive([*with_manifest(), member("n" * 300, b"x", pax_headers={"path": "../outside"})], tarfile.PAX_FORMAT),
        "is of type b'x'",
    ),
    "a long name of GNU": (archive([member("n" * 300)], tarfile.GNU_FORMAT), "is of type b'L'"),
    "a program": (archive(_with(member("run.sh", b"#!", mode=0o4755))), "found 'run.sh'"),
    "a size below zero": (archive([member(MANIFEST, size=-1)], tarfile.GNU_FORMAT), "found -1"),
    "a size beyond the file": (archive([member(MANIFEST, size=4000)], after=b""), "a complete gzipped tar"),
    "a size without measure": (archive([member(MANIFEST), member(A, size=8**11 - 1)]), "unpacks to at most"),
    "a bomb": (archive(with_manifest(member(A, b"\0" * (40 << 20)))), "unpacks to at most"),
    "no gzip": (b"PK\3\4 a zip", "a complete gzipped tar"),
    "nothing": (b"", "a complete gzipped tar"),
    "bytes after the gzip": (archive(with_manifest(member(A))) + b"x" * 700, "bytes follow it"),
    "zeros after the gzip": (archive(with_manifest(member(A))) + b"\0" * 700, "bytes follow it"),
    "a second gzip": (archive(with_manifest(member(A))) * 2, "bytes follow it"),
    "bytes after the tar": (archive(with_manifest(member(A)), after=END + b"x" * 6000), "only zeros follow the end"),
    "a second tar": (
        archive(with_manifest(member(A)), after=END + member(B)[0].tobuf() + END),
        "only zeros follow the end",
    ),
    "a bomb of zeros": (archive(with_manifest(member(A)), after=b"\0" * (30 << 20)), "only zeros follow the end"),
    "bytes after a member": (
        gzip.compress(gzip.decompress(archive(_with(member(A, b"1")))).replace(b"1" + b"\0" * 511, b"1" * 512)),
        "only zeros follow the content",
    ),
    "a header of noise": (archive(with_manifest(member(A)), after=b"x" * 512 + END), "a complete gzipped tar"),
    "no end": (archive(with_manifest(member(A)), after=b""), "a complete gzipped tar"),
    "a journal without measure": (archive([member(MANIFEST), member(JOURNAL, size=5 << 30)]), "has at most 4294967296"),
    "half a gzip": (archive(with_manifest(member(A, bytes(range(256)) * 9)))[:-300], "a complete gzipped tar"),
}


def test_the_hostile_archives_differ_from_a_good_one(tmp_path: Path) -> None:
    """The builder itself makes what `submit` makes, so that each hostile archive is refused for its own fault."""
    (tmp_path / "bundle").write_bytes(archive(with_manifest(member(A, b"1"), member(B, b"2"))))
    (tmp_path / "into").mkdir()

    assert unpack(tmp_path / "bundle", tmp_path / "into").names == (A, B)


def test_owner_mode_and_time_of_a_member_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(archive(with_manifest(member(A, b"x", mode=0o4777, uid=1, mtime=1))))
    (tmp_path / "into").mkdir()

    unpack(tmp_path / "bundle", tmp_path / "into")

    status = (tmp_path / "into" / A).stat()
    assert (status.st_mode & 0o7111, status.st_uid) == (0, os.getuid()) and status.st_mtime > 1


@pytest.mark.parametrize("header", ["pax", "longname"])
def test_a_header_that_announces_gigabytes_is_not_read(header: str, tmp_path: Path) -> None:
    """Tarfile reads the content of such headers into memory before it looks at a name."""
    kind = tarfile.XHDTYPE if header == "pax" else tarfile.GNUTYPE_LONGNAME
    (tmp_path / "bundle").write_bytes(archive([member(MANIFEST), member("x", size=7 << 30, type=kind)], after=b""))

    with pytest.raises(BundleRefused, match="is of type"):
        unpack(tmp_path / "bundle", tmp_path)


@pytest.mark.parametrize("kind", ["FIFO", "/dev/zero", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = {"FIFO": tmp_path / "fifo", "/dev/zero": Path("/dev/zero"), "folder": tmp_path}[kind]
    if kind == "FIFO":
        os.mkfifo(path)

    for read in (inspect, lambda path: unpack(path, tmp_path), lambda path: manifest_of({"x": path})):
        with pytest.raises(OSError, match="no file"):
            read(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_rejected_and_writes_nothing_outside(name: str, tmp_path: Path) -> None:
    content, expected = HOSTILE[name]
    (tmp_path / "bundle").write_bytes(content)
    into = tmp_path / "a" / "b"
    into.mkdir(parents=True)

    with pytest.raises(BundleRefused) as refused:
        unpack(tmp_path / "bundle", into, most_bytes=32 << 20)

    assert expected in str(refused.value)
    outside = {path for path in tmp_path.rglob("*") if path.is_file() and into not in path.parents}
    assert outside == {tmp_path / "bundle"}
    assert sum(path.stat().st_size for path in into.rglob("*")) < 1 << 20
    assert not any(path.is_symlink() for path in into.rglob("*"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(st.data())
def test_any_byte_that_is_changed_in_it_is_refused_or_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes that pad a member have no content."""
    folder, into = tmp_path_factory.mktemp("packed"), tmp_path_factory.mktemp("unpacked")
    path = packed(folder, dict(TAME))
    whole = bytearray(gzip.decompress(path.read_bytes()))
    manifest = manifest_of(dict(TAME))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(gzip.compress(bytes(whole), mtime=0))

    try:
        unpacked = unpack(path, into)
    except BundleRefused:
        return

    is_named = unpacked.changed or unpacked.manifest != manifest or unpacked.signature != "a signature\n"
    assert is_named or {name: (into / name).read_bytes() for name in unpacked.names} == TAME


def test_a_full_disk_is_reported_before_the_member_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path, dict(TAME))
    into = tmp_path / "into"
    into.mkdir()
    usage: Callable[[object], object] = lambda _: type("Usage", (), {"free": 100})  # noqa: E731
    monkeypatch.setattr("aiperf.submission.archive.shutil.disk_usage", usage)

    with pytest.raises(DiskTooSmall, match=r"'runs/1/journal.jsonl' has 700 bytes, but .* has room for 100"):
        unpack(path, into)


def test_a_file_changed_while_packed_leaves_no_archive(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for before, after in ((b"abc", b"abd"), (b"abc", b"ab"), (b"abc", b"abcd")):
        journal.write_bytes(before)
        manifest = manifest_of({JOURNAL: journal})
        journal.write_bytes(after)

        with pytest.raises(BundleRefused, match="changed while it was packed"):
            pack(tmp_path / "bundle", {JOURNAL: journal}, manifest, None)

        assert not (tmp_path / "bundle").exists()


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    path.write_bytes(b"a user's file")

    with pytest.raises(FileExistsError):
        pack(path, {JOURNAL: b"abc"}, manifest_of({JOURNAL: b"abc"}), None)

    assert path.read_bytes() == b"a user's file"


def test_a_large_journal_is_packed_and_unpacked_in_little_memory(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with journal.open("wb") as file:
        file.truncate(100 << 20)
    asked = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from aiperf.submission.archive import manifest_of, pack, unpack\n"
        "folder = Path(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "contents = {'runs/1/journal.jsonl': folder / 'journal'}\n"
        "pack(folder / 'bundle', contents, manifest_of(contents), None)\n"
        "(folder / 'into').mkdir()\n"
        "unpack(folder / 'bundle', folder / 'into')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    grown = subprocess.run(
        [sys.executable, "-c", asked, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert int(grown.stdout) < 32 << 10, "kilobytes"
