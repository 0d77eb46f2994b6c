"""Which sources run here: a digest of the packages' files, the same for a checkout and an installed wheel, and the commit.

The digest is the SHA-256 of what this prints, in a checkout or in site-packages:
    LC_ALL=C; find aiperf cluster conf morphism searchers -type f ! -path '*/__pycache__/*' | sort | xargs sha256sum
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

PACKAGES = ("aiperf", "cluster", "conf", "morphism", "searchers")
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
    names: list[str] = []
    for package in PACKAGES:
        if not (root / package).is_dir():
            raise FileNotFoundError(2, "the packages' sources are not there", str(root / package))
        files = (path for path in (root / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        names += [path.relative_to(root).as_posix() for path in files]
    whole = hashlib.sha256()
    for name in sorted(names, key=str.encode):
        whole.update(f"{hashlib.sha256((root / name).read_bytes()).hexdigest()}  {name}\n".encode())
    return whole.hexdigest()


def revision(root: Path | None = None) -> dict[str, str]:
    """The digest, and in a git checkout its commit, with '+' where files of the packages are not as committed."""
    root = root or installed()
    found = {SOURCE: digest(root)}
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *PACKAGES)
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
