"""Which sources run here: a digest of the packages' files, the same for a checkout and an installed wheel, and the commit.

The digest is the SHA-256 of what this prints, in a checkout; in site-packages likewise, without `conf` among the folders (the
configuration lies in aiperf/conf there, and goes by the checkout's name):
    find aiperf cluster conf morphism searchers -type f ! -path '*/__pycache__/*' | xargs sha256sum |
    sed 's,  aiperf/conf/,  conf/,' | LC_ALL=C sort -k 2
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

PACKAGES = ("aiperf", "cluster", "morphism", "searchers")
CONFIGURATION = "conf"
"""Beside the packages in a checkout, within `aiperf` where it is installed (`aiperf.conf_folder`)."""
SOURCE = "source"
COMMIT = "source commit"
"""Names under which a journal's versions hold them."""
_GIT_SECONDS = 20.0


def installed() -> Path:
    """The folder that holds the packages that run."""
    return Path(__file__).parent.parent.parent


def digest(root: Path) -> str:
    """Of the packages under a folder; 64 hexadecimal digits.

    Raises OSError: one of them is not there, or a file cannot be read.
    """
    whole = hashlib.sha256()
    for name, path in sorted(_files(root).items(), key=lambda each: each[0].encode()):
        whole.update(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n".encode())
    return whole.hexdigest()


def _files(root: Path) -> dict[str, Path]:
    """The files of the packages and of the configuration, by their names in a checkout."""
    inner = Path("aiperf") / CONFIGURATION
    is_installed = (root / inner).is_dir()
    found: dict[str, Path] = {}
    for package in PACKAGES if is_installed else (*PACKAGES, CONFIGURATION):
        if not (root / package).is_dir():
            raise FileNotFoundError(2, "the packages' sources are not there", str(root / package))
        for path in (root / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(root)
                found[(name.relative_to("aiperf") if name.is_relative_to(inner) else name).as_posix()] = path
    return found


def revision(root: Path | None = None) -> dict[str, str]:
    """The digest, and in a git checkout its commit, with '+' where files of the packages are not as committed."""
    root = root or installed()
    found = {SOURCE: digest(root)}
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *PACKAGES, CONFIGURATION)
        if commit is not None and changed is not None:
            found[COMMIT] = commit.strip() + ("+" if changed.strip() else "")
    return found


def _git(root: Path, *words: str) -> str | None:
    """What git answers. None: it is not installed, or does not answer: the digest says which sources these are anyway."""
    try:
        answer = subprocess.run(
            ["git", "-C", root, *words], capture_output=True, text=True, check=False, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
