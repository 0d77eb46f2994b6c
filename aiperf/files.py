"""Paths from users: kind of a path (file, directory, device, …), its text for messages, and texts for OS errors."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, AnyStr

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO (a named pipe)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r"\\\\|\\x[89a-f][0-9a-f]")
LONGEST_SHOWN = 120
"""Characters of a path that is printed in full."""

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""Errors of flock(2) on a file system without locks."""

_NO_ROOM = "free space there, or name another folder (runs=FOLDER, --out DIR)"
_NOT_ALLOWED = "grant this user the permission, or name another folder (runs=FOLDER, --out DIR)"
_OTHER_PATH = "correct the path, or name another file or folder"
_BROKEN = "look at the kernel's log (dmesg) and at the file server"
_FIXES: dict[int | None, str] = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: _NO_ROOM,
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: "name another folder (runs=FOLDER, --out DIR), or mount the file system for writing",
    errno.ENOENT: "check the path, and that its file system is mounted",
    errno.ENAMETOOLONG: _OTHER_PATH,
    errno.ENOTDIR: _OTHER_PATH,
    errno.EISDIR: _OTHER_PATH,
    errno.EINVAL: _OTHER_PATH,
    errno.EEXIST: _OTHER_PATH,
    errno.ELOOP: _OTHER_PATH,
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of this host (sysctl fs.file-max)",
}


def what_is_wrong_with(path: Path) -> str | None:
    """Return the kind of a path that is no regular file, as text after the words 'it is'. None for a regular file.

    Links are followed. The file is not opened. A path that cannot be examined gives 'out of reach (REASON)'.

    >>> what_is_wrong_with(Path("/")), what_is_wrong_with(Path("/dev/null")), what_is_wrong_with(Path("/nowhere"))
    ('a directory', 'a device', 'not there')
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        match error.errno:
            case errno.ENOENT if path.is_symlink():
                return f"a dangling link (to '{path.readlink()}')"
            case errno.ENOENT | errno.ENOTDIR:
                return "not there"
            case errno.ELOOP:
                return "a link that leads back to itself"
            case _:
                return f"out of reach ({error.strerror})"
    return next((name for is_of, name in _KINDS if is_of(mode)), None)


def require_file(path: Path) -> None:
    """Raise OSError if `path` is a directory, FIFO, socket, device or broken link."""
    if (wrong := what_is_wrong_with(path)) is not None and not wrong.startswith(("not there", "out of reach")):
        raise OSError(errno.EINVAL, f"it is {wrong}, no file", str(path))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. It never waits, and the kind is checked on the open descriptor."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    kind = next((name for is_of, name in _KINDS if is_of(mode)), "no regular file")
    raise OSError(errno.EINVAL, f"it is {kind}, no file", str(path))


def sha256_of(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bounded(path: Path, largest: int) -> bytes:
    """Return the content of a regular file of at most `largest` bytes."""
    with open_regular(path) as file:
        is_large = os.fstat(file.fileno()).st_size > largest
        content = b"" if is_large else file.read(largest + 1)  # the file may grow, and files of /proc have no size
    if is_large or len(content) > largest:
        raise OSError(errno.EFBIG, f"it may have at most {largest} bytes, but has more", str(path))
    return content


def bounded_lines(file: IO[AnyStr], longest: int) -> Iterator[AnyStr]:
    """Yield the lines of an open file with their line ends, from its current position on."""
    empty: AnyStr = file.read(0)
    return iter(partial(file.readline, longest), empty)


def lock(file: IO[Any], *, waits: bool = False) -> bool:
    """False on a file system without locks. Raise BlockingIOError if another process holds it and `waits` is False."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


class ForeignPath(OSError):
    """A path that is none of this machine. The fix replaces that of the operating system's errors."""

    def __init__(self, what: str, text: str, why: str, fix: str) -> None:
        super().__init__(errno.ENOENT, f"{what} is one of this machine, {why}", text)
        self.fix = fix


_FOREIGN = (
    (r"[A-Za-z][\w+.-]+://.*", "but this is an address", "copy the files here, or mount the store"),
    (r"[\w.@-]{2,}:/.*", "but this is a path of another host", "copy the files here, or mount its file system"),
    (r"[A-Za-z]:\\.*", "but this is a path of Windows", "name it as this machine does, /mnt/c/…"),
    (r"(\$\w+|\$\{\w+\})(/.*)?", "but a variable in it is not replaced", "leave single quotes out, or write the value"),
    (r"~[\w.-]+(/.*)?", "but there is no such user", "write the whole path"),
    (r"\s.*|.*\s", "but this begins or ends with a space", "leave the space out"),
)
"""Forms of paths that are none of this machine, with the reason and the fix."""


def require_path(text: str, what: str = "a path") -> None:
    """Raise ForeignPath for a path of another kind of place. A path that exists is never refused."""
    if os.path.lexists(text):
        return
    for form, why, fix in _FOREIGN:
        if re.fullmatch(form, text, re.DOTALL):
            raise ForeignPath(what, text, why, fix)


def given_path(text: str) -> Path:
    """Return the path that a user has typed, with `~` and `~user` at its beginning expanded."""
    path = os.path.expanduser(text)  # noqa: PTH111  # Path.expanduser raises for an unknown user, unlike a shell
    require_path(path)
    return Path(path)


def name_text(name: str) -> str:
    r"""Return a file's name as text for records and messages: each byte that is not UTF-8 becomes `\xNN`.

    `name`: as from `os.fsdecode`. `name_of` reads the text back. A UTF-8 name is unchanged, unless it has such an escape or two
    backslashes in a row: then its backslashes are doubled.

    >>> name_text("Mu\udcf1oz"), name_text("Muñoz"), name_text(r"a\x\b"), name_text(r"a\xf1")
    ('Mu\\xf1oz', 'Muñoz', 'a\\x\\b', 'a\\\\xf1')
    """
    if not _NOT_UTF8.search(name) and name_of(name) == name:
        return name
    return escaped(name.replace("\\", "\\\\"))


def name_of(text: str) -> str:
    """Return the name of a file from its text by `name_text`, to open the file."""
    return _ESCAPE.sub(lambda match: "\\" if match[0] == "\\\\" else chr(0xDC00 + int(match[0][2:], 16)), text)


def escaped(text: str) -> str:
    """Return a text for the screen, with each byte that is not UTF-8 as a backslash, x and two digits."""
    return _NOT_UTF8.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


def host_name() -> str:
    return name_text(socket.gethostname())


def shown(path: object) -> str:
    """Return a path as text in single quotes, for messages. Of more than 120 characters, the middle is replaced by '…'.

    >>> shown("runs/a"), len(shown("x" * 300))
    ("'runs/a'", 123)
    """
    text = escaped(os.fsdecode(path) if isinstance(path, bytes) else str(path))
    half = LONGEST_SHOWN // 2
    return f"'{text}'" if len(text) <= LONGEST_SHOWN else f"'{text[:half]}…{text[-half:]}'"


def refused(error: OSError) -> str:
    """Return the message for an error of the operating system: path, cause and what the user can do about it."""
    what = error.strerror or str(error) or type(error).__name__
    names = [
        shown(name) for name in (error.filename, error.filename2) if name is not None and not isinstance(name, int)
    ]
    failed = f"{' and '.join(names)}: {what}" if names else what
    if error.errno == errno.ENOENT and len(names) == 1 and not isinstance(error, ForeignPath):
        failed = f"{names[0]} does not exist"
    return f"{failed}. To fix it: {error.fix if isinstance(error, ForeignPath) else _FIXES.get(error.errno, _BROKEN)}"
