"""Archive file of a submission: a gzipped tar of regular files with a list of their SHA-256 digests (MANIFEST).

MANIFEST is the first member. Equal contents give equal bytes. `tar xzf` and `sha256sum -c` read it too. A reader accepts
regular files with the names of members only, each once and listed, and takes nothing but their content: no link, device,
folder, owner, mode or time.
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
from pathlib import Path

from aiperf.errors import AiperfError, BundleRefused
from aiperf.files import require_file
from aiperf.submission.contents import LARGEST, MANIFEST, MEMBER, SIGNATURE

MOST_BYTES = 16 << 30
"""Largest unpacked size in bytes. --most-bytes changes it."""
LARGEST_MEMBER = (8 << 30) - 1
"""Largest size that a ustar header can hold."""

_LEVEL = 6
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_KINDS = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.DIRTYPE: "a folder"}

Content = Path | bytes


class DiskTooSmall(AiperfError):
    """Too little free space on the disk to unpack a submission."""


@dataclass(frozen=True, slots=True)
class UnpackedSubmission:
    """Submission that was unpacked into a folder: its manifest, signature, and names of files."""

    manifest: bytes
    signature: str | None
    names: tuple[str, ...]
    changed: tuple[str, ...]
    """Members that differ from their line in the manifest."""


def manifest_of(contents: Mapping[str, Content]) -> bytes:
    """Return the manifest of a submission as bytes: one line per file with its SHA-256, two blanks and its name.

    `contents`: content of each file, or its path, by its name in the archive.

    Raises:
        OSError: a file cannot be read.
    """
    return "".join(f"{_sha256(content)}  {name}\n" for name, content in contents.items()).encode()


def pack(path: Path, contents: Mapping[str, Content], manifest: bytes, signature: str | None) -> None:
    """Write the archive of a submission to the file `path`, which must not exist.

    `contents`: content of each file, or its path, by its name in the archive. `manifest`: result of `manifest_of` for these
    contents. `signature`: text of its signature. None for no signature.

    Raises:
        BundleRefused: a file changed since the manifest was made, or has 8 GiB or more.
        OSError: a file cannot be read, or the archive exists or cannot be written. An incomplete archive is removed.
    """
    members: dict[str, Content] = {MANIFEST: manifest}
    members |= {} if signature is None else {SIGNATURE: signature.encode()}
    with path.open("xb") as raw:
        try:
            with (
                gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file,
                tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
            ):
                for name, content in (members | dict(contents)).items():
                    _add(tar, name, content)
            if manifest_of(contents) != manifest:
                raise BundleRefused(
                    "a submission contains only ended runs, but a file of one changed while it was packed: "
                    "wait until the run ends"
                )
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _add(tar: tarfile.TarFile, name: str, content: Content) -> None:
    member = tarfile.TarInfo(name)
    with _opened(content) as source:
        member.size = source.seek(0, io.SEEK_END)
        if member.size > LARGEST_MEMBER:
            raise BundleRefused(
                f"a member has at most {LARGEST_MEMBER} bytes, but {name!r} has {member.size}. "
                "Leave telemetry out (--no-telemetry), or submit a shorter run"
            )
        source.seek(0)
        tar.addfile(member, source)


def unpack(path: Path, folder: Path, most_bytes: int = MOST_BYTES) -> UnpackedSubmission:
    """Unpack the submission in the file `path` into the empty folder `folder`. Return its manifest, signature and file names.

    `most_bytes`: maximum unpacked size. Files that differ from their SHA-256 in the manifest are listed in the result. This
    is no error.

    Raises:
        BundleRefused: the file breaks a rule of submissions. The message has the rule.
        DiskTooSmall: the files do not fit on the disk.
        OSError: `path` is no regular file or cannot be read, or the folder cannot be written.
    """
    require_file(path)
    try:
        with gzip.open(path) as file, tarfile.open(fileobj=file, mode="r|", tarinfo=_Member) as tar:
            return _extract(tar, folder, most_bytes)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BundleRefused(
            f"a submission is a complete gzipped tar, but this file is not: {error}. Get the file again from its sender"
        ) from error


class _Member(tarfile.TarInfo):
    """Header of a regular file. Any other header is rejected before tarfile reads on, because it may announce gigabytes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type != tarfile.REGTYPE:
            kind = _KINDS.get(member.type, f"of type {member.type!r}")
            raise BundleRefused(
                f"a submission holds plain files alone, but {member.name[:200]!r} is {kind}. Ask its sender for a new file"
            )
        if member.name not in (MANIFEST, SIGNATURE):
            _require_name(member.name)
        largest = LARGEST.get(member.name, LARGEST_MEMBER)
        if not 0 <= member.size <= largest:
            raise BundleRefused(
                f"{member.name} has at most {largest} bytes, but found {member.size}. Ask its sender for a new file"
            )
        return member


def _extract(tar: tarfile.TarFile, folder: Path, most_bytes: int) -> UnpackedSubmission:
    manifest, signature, left = None, None, most_bytes
    wanted: dict[str, str] = {}
    found: dict[str, str] = {}
    for member in tar:
        name = member.name
        if member.size > left:
            raise BundleRefused(
                f"a submission unpacks to at most {most_bytes} bytes, but this one is larger. Raise the limit: --most-bytes"
            )
        left -= member.size
        if manifest is None:
            if name != MANIFEST:
                break
            manifest = _content(tar, member)
            wanted = _listed(manifest)
        elif name == SIGNATURE and signature is None and not found:
            signature = _content(tar, member)
        elif name in found or name in (MANIFEST, SIGNATURE):
            raise BundleRefused(f"a member occurs once, but {name!r} occurs again. Ask its sender for a new file")
        elif name not in wanted:
            raise BundleRefused(
                f"a submission holds what its {MANIFEST} lists, but {name!r} is not listed. Ask its sender for a new file"
            )
        elif member.size > (free := shutil.disk_usage(folder).free):
            raise DiskTooSmall(
                f"a submission is unpacked to be inspected. {name!r} has {member.size} bytes, but '{folder}' has room for "
                f"{free}: make room, or name another folder by TMPDIR"
            )
        else:
            tar.extract(member, folder, set_attrs=False, filter="data")
            found[name] = _sha256(folder / name)
    if manifest is None:
        raise BundleRefused(
            f"the first member of a submission is {MANIFEST}, but found another or none. Ask its sender for a new file"
        )
    if missing := [name for name in wanted if name not in found]:
        raise BundleRefused(
            f"a submission holds what its {MANIFEST} lists, but {missing[0]!r} is missing. Ask its sender for a new file"
        )
    changed = tuple(name for name in wanted if found[name] != wanted[name])
    return UnpackedSubmission(
        manifest, None if signature is None else signature.decode(errors="replace"), tuple(wanted), changed
    )


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None, "it is a plain file"
    return file.read()


def _sha256(content: Content) -> str:
    with _opened(content) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _opened(content: Content) -> io.BufferedReader | io.BytesIO:
    if not isinstance(content, Path):
        return io.BytesIO(content)
    require_file(content)
    return content.open("rb")


def _require_name(name: str) -> None:
    if not MEMBER.fullmatch(name):
        raise BundleRefused(
            f"members have the names that docs/ranking.md lists, but found {name[:200]!r}. Ask its sender for a new file"
        )


def _listed(manifest: bytes) -> dict[str, str]:
    """Return the SHA-256 of each name, in order."""
    found: dict[str, str] = {}
    for line in manifest.decode("ascii", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise BundleRefused(
                f"each line of {MANIFEST} is one of sha256sum's for another file, but found {line[:200]!r}. "
                "Ask its sender for a new file"
            )
        _require_name(match[2])
        found[match[2]] = match[1]
    return found
