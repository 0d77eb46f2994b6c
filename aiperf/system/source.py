"""Version of the running sources: a digest of the packages' files, equal for a checkout and an installed wheel, and the commit.

The digest is the SHA-256 of the output of this command in a checkout. In site-packages leave out the folder `conf`: the
configuration is in aiperf/conf there, and is listed by its name in a checkout:
    find aiperf cluster conf morphism searchers -type f ! -path '*/__pycache__/*' ! -name site.yaml | xargs sha256sum |
    sed 's,  aiperf/conf/,  conf/,' | LC_ALL=C sort -k 2
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aiperf.programs import ProgramFailed, ask

PACKAGES = ("aiperf", "cluster", "morphism", "searchers")
CONFIGURATION = "conf"
"""Next to the packages in a checkout, inside `aiperf` when installed (`aiperf.config`)."""
OF_A_SITE = "site.yaml"
"""Options of a site (aiperf/cli/site.py), which are no sources."""
SOURCE = "source"
COMMIT = "source commit"
_GIT_SECONDS = 20.0


def installed() -> Path:
    return Path(__file__).parent.parent.parent


def digest(root: Path) -> str:
    """Return the SHA-256 of all files of the packages and of the configuration below `root`."""
    whole = hashlib.sha256()
    for name, path in sorted(_files(root).items(), key=lambda each: each[0].encode()):
        whole.update(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n".encode())
    return whole.hexdigest()


def _files(root: Path) -> dict[str, Path]:
    inner = Path("aiperf") / CONFIGURATION
    is_installed = (root / inner).is_dir()
    files: dict[str, Path] = {}
    for package in PACKAGES if is_installed else (*PACKAGES, CONFIGURATION):
        if not (root / package).is_dir():
            raise FileNotFoundError(2, "the packages' sources are not there: install AIPerf again", str(root / package))
        for path in (root / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.name != OF_A_SITE:
                name = path.relative_to(root)
                files[(name.relative_to("aiperf") if name.is_relative_to(inner) else name).as_posix()] = path
    return files


def revision(root: Path | None = None) -> dict[str, str]:
    """Return the SHA-256 as 'source', and in a git checkout the commit as 'source commit', with '+' if files differ from it."""
    root = root or installed()
    versions = {SOURCE: digest(root)}
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *PACKAGES, CONFIGURATION)
        if commit is not None and changed is not None:
            versions[COMMIT] = commit.strip() + ("+" if changed.strip() else "")
    return versions


def _git(root: Path, *words: str) -> str | None:
    """Return git's output. None if git is not installed or fails: the digest identifies the sources anyway."""
    try:
        answer = ask(["git", "-C", str(root), *words], seconds=_GIT_SECONDS)
    except ProgramFailed:
        return None
    return answer.output if answer.status == 0 else None
