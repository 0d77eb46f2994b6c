"""Archive of a submission: a gzipped tar of regular files. Its first member, MANIFEST, lists the SHA-256 of each other member.

Equal contents give equal bytes. A reader accepts only the bytes that `pack` writes for these names and contents. So it rejects
links, devices, folders, second headers, programs, owners, times and trailing data. `tar xzf` and `sha256sum -c` read it too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from aiperf.errors import AiperfError, BundleRefused
from aiperf.files import require_file

MANIFEST = "MANIFEST"
SIGNATURE = "MANIFEST.sig"
MOST_BYTES = 16 << 30
"""Largest unpacked size in bytes. --most-bytes changes it."""
LARGEST_MEMBER = (8 << 30) - 1
"""Largest size that a ustar header can hold."""

_CHUNK = 1 << 20
_LARGEST = {MANIFEST: 4 << 20, SIGNATURE: 4096}
_LEVEL = 6
_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_LONGEST_NAME = 100
_KINDS = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.DIRTYPE: "a folder"}

Content = Path | bytes


class DiskTooSmall(AiperfError):
    """The disk has too little free space to unpack a submission."""


@dataclass(frozen=True, slots=True)
class UnpackedSubmission:
    """Unpacked submission."""

    manifest: bytes
    signature: str | None
    names: tuple[str, ...]
    changed: tuple[str, ...]
    """Members that differ from their line in the manifest."""


def manifest_of(contents: Mapping[str, Content]) -> bytes:
    """Return the manifest in the format of sha256sum. Raises OSError if a file cannot be read."""
    return "".join(f"{_sha256(content)}  {name}\n" for name, content in contents.items()).encode()


def pack(path: Path, contents: Mapping[str, Content], manifest: bytes, signature: str | None) -> None:
    """Write a new archive. `manifest`: `manifest_of(contents)`.

    Raises:
        BundleRefused: A file changed since the manifest was made, or is too large for a member.
        OSError: The disk refuses the archive. The incomplete file is removed.
    """
    listed = _listed(manifest)
    try:
        with path.open("xb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
            found = _write(file, manifest, None if signature is None else signature.encode(), contents)
        if changed := [name for name in contents if found[name] != listed[name]]:
            raise BundleRefused(
                f"a submission contains only ended runs, but {changed[0]!r} changed while it was packed: wait until the "
                "run ends"
            )
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def unpack(path: Path, folder: Path, most_bytes: int = MOST_BYTES) -> UnpackedSubmission:
    """Unpack a submission into an empty folder, and check each member against the manifest.

    Raises:
        BundleRefused: `pack` writes no such file. The message names the member and the rule.
        DiskTooSmall: The members do not fit on the disk.
        OSError: It is no regular file or cannot be read, or the folder cannot be written.
    """
    require_file(path)
    try:
        with gzip.open(path) as file:
            stream = _Stream(file, most_bytes)
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as tar:  # type: ignore[call-overload]
                manifest, signature, wanted = _extract(tar, folder, most_bytes)
            while stream.read(_CHUNK):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BundleRefused(f"a submission is a complete gzipped tar, but this file is not: {error}") from error
    again = _Stream(io.BytesIO(), 0)
    found = _write(again, manifest, signature, {name: folder / name for name in wanted})
    if again.digest.digest() != stream.digest.digest():
        raise BundleRefused(
            "a submission is, byte for byte, what `submit` writes for its members, in the order of its manifest. This file has "
            "other headers, another order, or other bytes between or after the members"
        )
    changed = tuple(name for name in wanted if found[name] != wanted[name])
    return UnpackedSubmission(
        manifest, None if signature is None else signature.decode(errors="replace"), tuple(wanted), changed
    )


class _Member(tarfile.TarInfo):
    """Header of a regular file. Any other header is rejected before tarfile reads on, because it may announce gigabytes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type != tarfile.REGTYPE:
            kind = _KINDS.get(member.type, f"of type {member.type!r}")
            raise BundleRefused(f"a submission holds plain files alone. {member.name!r} is {kind}")
        _require_name(member.name)
        if not 0 <= member.size <= _LARGEST.get(member.name, LARGEST_MEMBER):
            largest = _LARGEST.get(member.name, LARGEST_MEMBER)
            raise BundleRefused(f"{member.name} has at most {largest} bytes, but found {member.size}")
        return member


class _Stream:
    """Digest of the bytes read from a file or written to it. Reading raises an error after too many bytes."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, most_bytes: int) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._left = most_bytes + (64 << 20)  # headers and padding
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes. Raises BundleRefused if the submission is too large."""
        found = self._file.read(size)
        self.digest.update(found)
        self._left -= len(found)
        if self._left < 0:
            raise _too_large(self._most_bytes)
        return found

    def write(self, content: bytes) -> int:
        """Add to the digest. Nothing is stored."""
        self.digest.update(content)
        return len(content)


def _extract(tar: tarfile.TarFile, folder: Path, most_bytes: int) -> tuple[bytes, bytes | None, dict[str, str]]:
    """Extract all members, and return the manifest, the signature and what the manifest lists."""
    manifest, signature, left = None, None, most_bytes
    wanted: dict[str, str] = {}
    seen: set[str] = set()
    for member in tar:
        name = member.name
        if member.size > left:
            raise _too_large(most_bytes)
        left -= member.size
        if manifest is None:
            if name != MANIFEST:
                break
            manifest = _content(tar, member)
            wanted = _listed(manifest)
        elif name == SIGNATURE and signature is None and not seen:
            signature = _content(tar, member)
        elif name in seen or name in _LARGEST:
            raise BundleRefused(f"a member occurs once, but {name!r} occurs again")
        elif name not in wanted:
            raise BundleRefused(f"a submission holds what its {MANIFEST} lists. {name!r} is not listed")
        elif member.size > (free := shutil.disk_usage(folder).free):
            raise DiskTooSmall(
                f"a submission is unpacked to be judged. {name!r} has {member.size} bytes, and '{folder}' has room for {free}: "
                "make room, or name another folder by TMPDIR"
            )
        else:
            tar.extract(member, folder, set_attrs=False, filter="data")
            seen.add(name)
    if manifest is None:
        raise BundleRefused(f"the first member of a submission is {MANIFEST}, but found another or none")
    if missing := [name for name in wanted if name not in seen]:
        raise BundleRefused(f"a submission holds what its {MANIFEST} lists. {missing[0]!r} is missing")
    return manifest, signature, wanted


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None, "it is a plain file"
    return file.read()


def _too_large(most_bytes: int) -> BundleRefused:
    return BundleRefused(
        f"a submission unpacks to at most {most_bytes} bytes, but this one is larger. --most-bytes allows more"
    )


def _write(file: Any, manifest: bytes, signature: bytes | None, contents: Mapping[str, Content]) -> dict[str, str]:
    """Write the tar, and return the SHA-256 of each member."""
    head: dict[str, Content] = {MANIFEST: manifest} if signature is None else {MANIFEST: manifest, SIGNATURE: signature}
    found = {}
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in (head | dict(contents)).items():
            _require_name(name)
            member = tarfile.TarInfo(name)
            with _opened(content) as source:
                member.size = source.seek(0, io.SEEK_END)
                if member.size > LARGEST_MEMBER:
                    raise BundleRefused(f"a member has at most {LARGEST_MEMBER} bytes. {name!r} has {member.size}")
                source.seek(0)
                tar.addfile(member, source)
            found[name] = _sha256(content)
    return found


def _sha256(content: Content) -> str:
    with _opened(content) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _opened(content: Content) -> io.BufferedReader | io.BytesIO:
    if not isinstance(content, Path):
        return io.BytesIO(content)
    require_file(content)
    return content.open("rb")


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise BundleRefused(
            f"a member's name is up to {_LONGEST_NAME} of letters, digits and '._+-', in parts that begin with no dot, with "
            f"'/' between them, but found {name[:200]!r}"
        )


def _listed(manifest: bytes) -> dict[str, str]:
    """Return the SHA-256 of each name, in order."""
    *lines, end = manifest.decode("ascii", "replace").split("\n")
    matches = [_LINE.fullmatch(line) for line in lines]
    if end or None in matches:
        wrong = next((line for line, match in zip(lines, matches, strict=True) if match is None), end)
        raise BundleRefused(
            f"each line of {MANIFEST} is one of sha256sum's, with its newline, but found {wrong[:200]!r}"
        )
    found = {match[2]: match[1] for match in matches if match}
    files: set[str] = set()
    for match in filter(None, matches):
        _require_name(match[2])
        # On some file systems names that differ in capitals are one file.
        if (name := match[2].casefold()) in files:
            raise BundleRefused(f"a name is once in {MANIFEST}, capitals or not, but found {match[2]!r} again")
        files.add(name)
    for name in found:
        if any(str(parent) in files for parent in PurePosixPath(name.casefold()).parents):
            raise BundleRefused(f"a name is that of a file or of a folder, but {name!r} is in a file of {MANIFEST}")
    return found
