"""Archive file of a submission: a gzipped tar of regular files with a list of their SHA-256 digests (MANIFEST)."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from aiperf.errors import AiperfError, BundleRefused
from aiperf.files import open_regular, sha256_of
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.journal.sealed_log import check_object
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS

MOST_BYTES = 16 << 30
"""Largest unpacked size in bytes. --most-bytes changes it."""
LARGEST_MEMBER = (8 << 30) - 1
"""Largest size that a ustar header can hold."""

MOST_ZEROS = 1 << 20
"""Most bytes after the last member, all zero."""
_LEVEL = 6
_PIECE = 1 << 16
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_KINDS = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.DIRTYPE: "a folder"}

Content = Path | bytes
ENDING = ".aiperf.tar.gz"
FORMAT = 1
MANIFEST = "MANIFEST"
SIGNATURE = "MANIFEST.sig"
SUBMISSION = "submission.json"
ANNOUNCEMENTS = "announcements.jsonl"
PAGE = "report.html"
TELEMETRY = "telemetry"
LARGEST = {MANIFEST: 4 << 20, SIGNATURE: 4096, SUBMISSION: 4 << 20, ANNOUNCEMENTS: 32 << 20}
"""Largest size in bytes of members that are read into memory before they are checked."""
LARGEST_JOURNAL = 4 << 30
"""Largest size in bytes of the journal of a submitted run: about 8 million lines (docs/architecture.md, design size: 2)."""
_FILE = r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,63}"
_NAMED = "|".join(map(re.escape, (JOURNAL, PAGE)))
MEMBER = re.compile(
    rf"{re.escape(SUBMISSION)}|{re.escape(ANNOUNCEMENTS)}|"
    rf"runs/[1-9][0-9]{{0,5}}/({_NAMED}|{TELEMETRY}/{_FILE}\.jsonl(\.gz)?|power/{_FILE}\.(yaml|csv)"
    rf"|{CHECKPOINTS}/{_FILE}\.safetensors)"
)
"""Names of members, without the manifest and its signature. No name leaves the folder, and none is hidden."""


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
    """Return the manifest of a submission as bytes: one line per file with its SHA-256, two blanks and its name."""
    return "".join(f"{_sha256(content)}  {name}\n" for name, content in contents.items()).encode()


def recorded(run_folder: Path) -> list[Path]:
    """Return the files of telemetry in the folder of a run, those of minutes included, sorted by name."""
    return sorted(each for ending in ("", ".gz") for each in (run_folder / TELEMETRY).glob(f"*.jsonl{ending}"))


def weights_beside(path: Path) -> Path:
    """Return the file of the weights of a submission.

    >>> weights_beside(Path("site.aiperf.tar.gz")).name, weights_beside(Path("bundle")).name
    ('site.weights', 'bundle.weights')
    """
    return path.with_name(f"{path.name.removesuffix(ENDING)}.weights")


def pack(path: Path, contents: Mapping[str, Content], manifest: bytes, signature: str | None) -> None:
    """Write the archive of a submission to the file `path`, which must not exist. None for no signature."""
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
    """Unpack the submission in the file `path` into the empty folder `folder`."""
    try:
        with open_regular(path) as file:
            return _extract(_Unzipped(file), folder, most_bytes)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BundleRefused(
            f"a submission is a complete gzipped tar, but this file is not: {error}. Get the file again from its sender"
        ) from error


class _Unzipped:
    """Reader of the content of a gzip file with one member. It decompresses no more than it returns."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._zip = zlib.decompressobj(wbits=31)  # gzip, with its checksum
        self._held = b""

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes."""
        while size:
            if not (piece := self._held[:size] or self._more()):
                raise EOFError("it ends early")
            piece, self._held = piece[:size], piece[size:] + self._held[size:]
            size -= len(piece)
            yield piece

    def require_end(self) -> None:
        """Raise BundleRefused unless only zeros follow in the tar, at most 1 MiB, and nothing after the gzip member."""
        zeros = 0
        while piece := self._held or self._more():
            self._held = b""
            zeros += len(piece)
            if piece.strip(b"\0") or zeros > MOST_ZEROS:
                raise refused(f"only zeros follow the end of the tar, at most {MOST_ZEROS} bytes", "found other bytes")
        if self._zip.unused_data or self._file.read(1):
            raise refused("a submission is one gzip member", "bytes follow it")

    def _more(self) -> bytes:
        """Return some bytes, none at the end of the gzip member."""
        while not self._zip.eof:
            packed = self._zip.unconsumed_tail or self._file.read(_PIECE)
            if piece := self._zip.decompress(packed, _PIECE):
                return piece
            if not packed and not self._zip.eof:
                raise EOFError("it ends early")
        return b""


class _Member(tarfile.TarInfo):
    """Header of a regular file. Any other header is rejected before tarfile reads on, because it may announce gigabytes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type != tarfile.REGTYPE:
            kind = _KINDS.get(member.type, f"of type {member.type!r}")
            raise refused("a submission holds plain files alone", f"{member.name[:200]!r} is {kind}")
        if member.name not in (MANIFEST, SIGNATURE):
            _require_name(member.name)
        largest = largest_of(member.name) or LARGEST_MEMBER
        if not 0 <= member.size <= largest:
            raise refused(f"{member.name} has at most {largest} bytes", f"found {member.size}")
        return member


def _members(unzipped: _Unzipped) -> Iterator[tuple[_Member, Iterator[bytes]]]:
    """Yield the header and the content of each member, which the caller reads to its end. Check all bytes after them."""
    while (header := b"".join(unzipped.pieces(tarfile.BLOCKSIZE))).strip(b"\0"):
        member = _Member.frombuf(header, "utf-8", "surrogateescape")
        yield member, unzipped.pieces(member.size)
        if b"".join(unzipped.pieces(-member.size % tarfile.BLOCKSIZE)).strip(b"\0"):
            raise refused("only zeros follow the content of a member", f"other bytes follow that of {member.name!r}")
    unzipped.require_end()


def _extract(unzipped: _Unzipped, folder: Path, most_bytes: int) -> UnpackedSubmission:
    manifest, signature, left = None, None, most_bytes
    wanted: dict[str, str] = {}
    digests: dict[str, str] = {}
    for member, pieces in _members(unzipped):
        name = member.name
        if member.size > left:
            raise BundleRefused(
                f"a submission unpacks to at most {most_bytes} bytes, but this one is larger. Raise the limit: --most-bytes"
            )
        left -= member.size
        if manifest is None:
            if name != MANIFEST:
                break
            manifest = b"".join(pieces)
            wanted = _listed(manifest)
        elif name == SIGNATURE and signature is None and not digests:
            signature = b"".join(pieces)
        elif name in digests or name in (MANIFEST, SIGNATURE):
            raise refused("a member occurs once", f"{name!r} occurs again")
        elif name not in wanted:
            raise refused(f"a submission holds what its {MANIFEST} lists", f"{name!r} is not listed")
        elif member.size > (free := shutil.disk_usage(folder).free):
            raise DiskTooSmall(
                f"a submission is unpacked to be inspected. {name!r} has {member.size} bytes, but '{folder}' has room for "
                f"{free}: make room, or name another folder by TMPDIR"
            )
        else:
            digests[name] = _written(folder / name, pieces)
    if manifest is None:
        raise refused(f"the first member of a submission is {MANIFEST}", "found another or none")
    if missing := [name for name in wanted if name not in digests]:
        raise refused(f"a submission holds what its {MANIFEST} lists", f"{missing[0]!r} is missing")
    changed = tuple(name for name in wanted if digests[name] != wanted[name])
    return UnpackedSubmission(
        manifest, None if signature is None else signature.decode(errors="replace"), tuple(wanted), changed
    )


def _written(path: Path, pieces: Iterator[bytes]) -> str:
    """Write a new file and return its SHA-256."""
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _sha256(content: Content) -> str:
    with _opened(content) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _opened(content: Content) -> io.BufferedReader | io.BytesIO:
    return open_regular(content) if isinstance(content, Path) else io.BytesIO(content)


def _require_name(name: str) -> None:
    if not MEMBER.fullmatch(name):
        raise refused("members have the names that docs/ranking.md lists", f"found {name[:200]!r}")


def _listed(manifest: bytes) -> dict[str, str]:
    """Return the SHA-256 of each name, in order."""
    digests: dict[str, str] = {}
    for line in manifest.decode("ascii", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in digests:
            raise refused(f"each line of {MANIFEST} is one of sha256sum's for another file", f"found {line[:200]!r}")
        _require_name(match[2])
        digests[match[2]] = match[1]
    return digests


def largest_of(name: str) -> int | None:
    """Return the largest size in bytes of the member `name`. None if it has no bound of its own."""
    return LARGEST_JOURNAL if name.endswith(f"/{JOURNAL}") else LARGEST.get(name)


TelemetryHeld = Literal["included", "left out", "none recorded"]


class SubmittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a submission, as an entry of submission.json. The first is in the folder runs/1, the second in runs/2."""

    run: str
    telemetry: TelemetryHeld


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Content of submission.json: release, last announcement and list of runs."""

    format: int = FORMAT
    release: str
    announcements: str | None = None
    """Head of the included log of announcements. None without a log."""
    weights: str | None = None
    """SHA-256 of the file of weights, which show the qualities. None if there is none."""
    runs: tuple[SubmittedRun, ...]


def refused(rule: str, found: str) -> BundleRefused:
    return BundleRefused(f"{rule}, but {found}. Ask its sender for a new file")


def submission_of(content: bytes) -> Submission:
    """Return the list of runs in submission.json, after a check. `content`: bytes of the file."""
    try:
        check_object(content)
        document = msgspec.json.decode(content, type=dict[str, Any])
        if document.get("format") != FORMAT:
            raise BundleRefused(
                f"this release reads {SUBMISSION} of format {FORMAT}, but found {document.get('format')!r}. Read it with the "
                "release that made it"
            )
        submission = msgspec.convert(document, Submission)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError) as error:
        raise BundleRefused(
            f"{SUBMISSION} lists the runs of a submission. This one cannot be read: {error}. Ask its sender for a new file"
        ) from error
    if not submission.runs:
        raise BundleRefused(
            f"a submission is of one run or more. {SUBMISSION} names none. Ask its sender for a new file"
        )
    return submission


def unpack_submission(path: Path, folder: Path, most_bytes: int = MOST_BYTES) -> tuple[UnpackedSubmission, Submission]:
    """Unpack the submission in the file `path` into the empty folder `folder`, and the weights beside it, if they are there."""
    unpacked = unpack(path, folder, most_bytes)
    if SUBMISSION not in unpacked.names:
        raise refused(f"a submission has a {SUBMISSION}", "this one has none")
    submission = submission_of((folder / SUBMISSION).read_bytes())
    weights = weights_beside(path)
    if submission.weights is not None and weights.exists():
        if (has := sha256_of(weights)) != submission.weights:
            raise refused(f"weights have the SHA-256 in {SUBMISSION}", f"'{weights}' has {has}")
        unpack(weights, folder, most_bytes)
    return unpacked, submission
