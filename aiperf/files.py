"""What lies at a path, and what the system refused of it, in words that a person can act on.

An OSError that somebody expects is answered where it is raised, with what is known there. What nobody expected comes to the
outermost answer (`aiperf/__main__.py`), which has these words for it: law, offence and remedy by its number.
"""

from __future__ import annotations

import errno
import os
import stat
import traceback
from pathlib import Path

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO (a named pipe)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
LONGEST_SHOWN = 120
"""Characters of a path that are shown whole."""

_NO_ROOM = ("there must be room for what is written", "make room there, or name another place (runs=FOLDER, --out DIR)")
_NOT_ALLOWED = (
    "this user must be allowed to read what a command reads, and to write where it writes",
    "grant that, or name another place (runs=FOLDER, --out DIR)",
)
_BROKEN = (
    "a disk must give what was written to it",
    "look at the kernel's log (dmesg) and at the file system's server; copy what is lost from elsewhere",
)
_LAWS: dict[int | None, tuple[str, str]] = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: _NO_ROOM,
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: (
        "what is written needs a file system that takes it",
        "name another place (runs=FOLDER, --out DIR), or mount it for writing",
    ),
    errno.ENAMETOOLONG: ("a name has at most 255 bytes, and a path 4095", "take a shorter one"),
    errno.ENOENT: ("what a command names must be there", "look whether the path is right, and its file system mounted"),
    errno.ENOTDIR: ("a path leads through folders", "look which part of it is a file, and name another place"),
    errno.EISDIR: ("a file is read or written here, not a directory", "name a file, or move the directory away"),
    errno.EEXIST: ("a file or folder of its own is made here", "move away what lies there, or name another place"),
    errno.ELOOP: ("a link leads to a file or a folder", "remove the link that leads back to itself"),
    errno.EIO: _BROKEN,
    errno.ESTALE: _BROKEN,
    errno.EMFILE: ("a command opens many files at once", "allow more (ulimit -n)"),
    errno.ENFILE: ("a command opens many files at once", "have the host allow more (sysctl fs.file-max)"),
}
_ELSE = ("a command needs what it asks the system for", "look what the system's log says of it")


def what_is_wrong_with(path: Path) -> str | None:
    """Why nothing can be read from a path as from a file, after 'it is'; None: a file lies there. Nothing is opened.

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
    """Raises OSError where a path leads to something else than a file: at a FIFO a reader would wait for ever."""
    if (wrong := what_is_wrong_with(path)) is not None and not wrong.startswith(("not there", "out of reach")):
        raise OSError(errno.EINVAL, f"it is {wrong}, no file", str(path))


def given_path(text: str) -> Path:
    """A path as a shell gives it, with `~` and `~user` at its beginning expanded: shells leave those after an equals sign."""
    return Path(os.path.expanduser(text))  # noqa: PTH111  # Path.expanduser raises where there is no such user; shells do not


def shown(path: object) -> str:
    """A path in quotes, its middle left out where it is long.

    >>> shown("runs/a"), len(shown("x" * 300))
    ("'runs/a'", 123)
    """
    words = os.fsdecode(path) if isinstance(path, bytes) else str(path)
    half = LONGEST_SHOWN // 2
    return f"'{words}'" if len(words) <= LONGEST_SHOWN else f"'{words[:half]}…{words[-half:]}'"


def refused(error: OSError) -> str:
    """What the system refused: the law, the offence with its path, the remedy, and where in our code it came up."""
    law, remedy = _LAWS.get(error.errno, _ELSE)
    what = error.strerror or str(error) or type(error).__name__
    names = [
        shown(name) for name in (error.filename, error.filename2) if name is not None and not isinstance(name, int)
    ]
    offence = f"{' and '.join(names)}: {what}" if names else what
    return f"{law}; {offence}. To go on: {remedy}{_place(error)}"


def _place(error: OSError) -> str:
    """The last line of ours that it passed: for whoever is told of it."""
    root = Path(__file__).parent.parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(root) and file.relative_to(root).parts[0] in (
            "aiperf",
            "cluster",
            "searchers",
            "morphism",
        ):
            return f" [{file.relative_to(root)}:{frame.lineno}]"
    return ""
