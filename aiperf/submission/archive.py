"""The file of a submission: a gzipped tar that holds just what its first member, MANIFEST, lists, in that order.

Written so that equal contents make equal bytes; `tar xzf`, `sha256sum -c MANIFEST` and `ssh-keygen -Y verify` read it. Read
with suspicion, by no other program's code than this: each header must be, byte for byte, the one that is written here for a
plain file of its name and size. So there is no link, no device, no folder, no second header of a name, no path that leads out
of the folder, and nothing is unpacked beyond the bytes that were allowed.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import tarfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiperf.errors import AiperfError, BundleRefused

MANIFEST = "MANIFEST"
SIGNATURE = "MANIFEST.sig"
MOST_BYTES = 16 << 30
"""Unpacked; more by --most-bytes."""
LARGEST_MEMBER = (8 << 30) - 1
"""What the size in a ustar header can say."""

_BLOCK = 512
_CHUNK = 1 << 20
_LARGEST_MANIFEST = 4 << 20
_LARGEST_SIGNATURE = 4096
_LEVEL = 6
_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_LONGEST_NAME = 100

Content = Path | bytes


class DiskTooSmall(AiperfError):
    """There is no room to unpack a submission."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A submission in a folder of its own."""

    manifest: bytes
    signature: str | None
    names: tuple[str, ...]
    changed: tuple[str, ...]
    """Members that are not what the manifest says of them."""


def manifest_of(contents: Mapping[str, Content]) -> bytes:
    """In the form of sha256sum. Raises OSError: a file cannot be read."""
    return "".join(f"{_sha256(content)}  {name}\n" for name, content in contents.items()).encode()


def pack(path: Path, contents: Mapping[str, Content], manifest: bytes, signature: str | None) -> None:
    """Writes a new archive; `manifest` is that of the contents (`manifest_of`), in their order.

    Raises:
        BundleRefused: a file changed since it was listed, or is larger than a member can be.
        OSError: the disk would not take it; what was written is removed.
    """
    head: dict[str, Content] = {MANIFEST: manifest}
    if signature is not None:
        head[SIGNATURE] = signature.encode()
    listed = _listed(manifest)
    try:
        with path.open("xb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
            for name, content in (head | dict(contents)).items():
                wrote = _write(file, name, content)
                if name in contents and wrote != listed[name]:
                    raise BundleRefused(
                        f"a submission is of runs that are over; {name!r} changed while it was packed: wait until it ends"
                    )
            file.write(b"\0" * (2 * _BLOCK))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def unpack(path: Path, folder: Path, most_bytes: int = MOST_BYTES) -> Unpacked:
    """Unpacks a submission into an empty folder, and checks each member against the manifest.

    Raises:
        BundleRefused: it is not written as submissions are; the message names the member and the law.
        DiskTooSmall: its members do not fit on the disk.
        OSError: it cannot be read, or the folder cannot be written.
    """
    with path.open("rb") as raw, gzip.open(raw) as file:
        try:
            members = _members(file, most_bytes)
            name, size, content = next(members, ("", 0, iter(())))
            if name != MANIFEST:
                raise BundleRefused(f"the first member of a submission is {MANIFEST}; found {name!r}")
            _require_size(name, size, _LARGEST_MANIFEST)
            manifest = b"".join(content)
            wanted = _listed(manifest)
            signature: str | None = None
            names: dict[str, None] = {}
            changed: list[str] = []
            order = iter(wanted)
            for name, size, content in members:
                if name == SIGNATURE and signature is None and not names:
                    _require_size(name, size, _LARGEST_SIGNATURE)
                    signature = b"".join(content).decode("utf-8", "replace")
                    continue
                _require_next(name, next(order, None), wanted, names)
                _require_room(folder, name, size)
                if _unpack(content, folder / name) != wanted[name]:
                    changed.append(name)
                names[name] = None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BundleRefused(f"a submission is one whole gzip file; this one is not: {error}") from error
    missing = [name for name in wanted if name not in names]
    if missing:
        raise BundleRefused(f"a submission holds what its {MANIFEST} lists; {missing[0]!r} is missing")
    return Unpacked(manifest, signature, tuple(names), tuple(changed))


def _members(file: gzip.GzipFile, most_bytes: int) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Name, size and bytes of each member; what is left of one is passed over before the next."""
    left = most_bytes
    while (header := _read(file, _BLOCK)) != b"\0" * _BLOCK:
        name, size = _header(header)
        if size > left:
            raise BundleRefused(
                f"a submission unpacks to at most {most_bytes} bytes; with {name!r}, of {size}, it would be more: "
                "where that is right, --most-bytes allows more"
            )
        left -= size
        content = _content(file, size)
        yield name, size, content
        for _ in content:
            pass
        if _read(file, -size % _BLOCK).strip(b"\0"):
            raise BundleRefused(f"after a member come zeros, to the end of its block; after {name!r} come others")
    if _read(file, _BLOCK) != b"\0" * _BLOCK or file.read(1):
        raise BundleRefused("after two blocks of zeros a submission is over; found more")


def _header(header: bytes) -> tuple[str, int]:
    try:
        told = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        name, size = told.name, told.size
    except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
        raise BundleRefused(f"a member begins with a header of ustar; found another: {error}") from error
    if told.type != tarfile.REGTYPE:
        kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.DIRTYPE: "a folder"}
        raise BundleRefused(
            f"a submission holds plain files alone; {name!r} is {kinds.get(told.type, f'of type {told.type!r}')}"
        )
    _require_name(name)
    if not 0 <= size <= LARGEST_MEMBER or header != _header_of(name, size):
        raise BundleRefused(
            f"a member's header is the one that `submit` writes for its name and size; that of {name!r} is not"
        )
    return name, size


def _header_of(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise BundleRefused(
            f"a member's name is up to {_LONGEST_NAME} of letters, digits and '._+-', in parts that begin with no dot, with "
            f"'/' between them; found {name[:200]!r}"
        )


def _require_size(name: str, size: int, most: int) -> None:
    if size > most:
        raise BundleRefused(f"{name} has at most {most} bytes; found {size}")


def _require_next(name: str, expected: str | None, wanted: Mapping[str, str], before: Collection[str]) -> None:
    if name in before or name in (MANIFEST, SIGNATURE):
        raise BundleRefused(f"a member is there once; {name!r} comes again")
    if name not in wanted:
        raise BundleRefused(f"a submission holds what its {MANIFEST} lists; {name!r} is not listed")
    if name != expected:
        raise BundleRefused(f"members stand as {MANIFEST} lists them; {expected!r} was to come, and {name!r} came")


def _require_room(folder: Path, name: str, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise DiskTooSmall(
            f"a submission is unpacked to be judged; {name!r} has {size} bytes, and '{folder}' has room for {free}: make room, "
            "or name another folder by TMPDIR"
        )


def _listed(manifest: bytes) -> dict[str, str]:
    """SHA-256 by name, in order."""
    found: dict[str, str] = {}
    folded: set[str] = set()
    try:
        lines = manifest.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise BundleRefused(f"{MANIFEST} is text in ASCII: {error}") from error
    if lines.pop() != "":
        raise BundleRefused(f"{MANIFEST} ends with a newline")
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise BundleRefused(f"a line of {MANIFEST} is one of sha256sum's; found {line[:200]!r}")
        digest, name = match.groups()
        _require_name(name)
        if name.casefold() in folded:  # on some file systems they would be one file
            raise BundleRefused(f"a name stands once in {MANIFEST}, capitals or not; found {name!r} again")
        folded.add(name.casefold())
        found[name] = digest
    for name in found:
        parts = name.casefold().split("/")
        if any("/".join(parts[:at]) in folded for at in range(1, len(parts))):
            raise BundleRefused(f"a name is a file's or a folder's; {name!r} lies in a file of {MANIFEST}")
    return found


def _content(file: gzip.GzipFile, size: int) -> Iterator[bytes]:
    while size:
        chunk = _read(file, min(size, _CHUNK))
        size -= len(chunk)
        yield chunk


def _read(file: gzip.GzipFile, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise BundleRefused("a submission ends with two blocks of zeros; this one is cut short")
    return found


def _unpack(content: Iterator[bytes], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = hashlib.sha256()
    with path.open("xb") as file:
        for chunk in content:
            whole.update(chunk)
            file.write(chunk)
    return whole.hexdigest()


def _write(file: gzip.GzipFile, name: str, content: Content) -> str:
    """Gives its SHA-256."""
    size = content.stat().st_size if isinstance(content, Path) else len(content)
    _require_name(name)
    if size > LARGEST_MEMBER:
        raise BundleRefused(f"a member has at most {LARGEST_MEMBER} bytes; {name!r} has {size}")
    file.write(_header_of(name, size))
    whole = hashlib.sha256()
    left = size
    for chunk in _chunks(content):
        left -= len(chunk)
        if left < 0:
            return ""  # it grew: its header is wrong already
        whole.update(chunk)
        file.write(chunk)
    file.write(b"\0" * (-size % _BLOCK))
    return whole.hexdigest() if left == 0 else ""


def _sha256(content: Content) -> str:
    whole = hashlib.sha256()
    for chunk in _chunks(content):
        whole.update(chunk)
    return whole.hexdigest()


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
