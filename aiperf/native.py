"""Compilation of the C and C++ sources that AIPerf ships. The built programs are kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from aiperf.atomic_files import draft_of
from aiperf.errors import BadConfiguration
from aiperf.own_files import PROGRAM, open_own, own_folder
from aiperf.programs import ProgramFailed, ask

PACKAGES = {"cc": "gcc libc6-dev", "gcc": "gcc libc6-dev", "g++": "g++", "mpicc": "libopenmpi-dev"}
"""Debian packages of the compilers that our sources need."""
BUILD_SECONDS = 120
_LONGEST_SHOWN = 600


def program(source: Path, *, compiler: str, flags: tuple[str, ...]) -> Path:
    if shutil.which(compiler) is None:
        package = PACKAGES.get(Path(compiler).name)
        fix = f"install it (Debian: apt-get install {package})" if package else "install it, or name another compiler"
        raise BadConfiguration(f"{source.name} needs a compiler, but {compiler!r} is not installed: {fix}")
    version = _output([compiler, "--version"])
    key = hashlib.sha256(source.read_bytes())
    for part in (compiler, version, *flags):
        key.update(b"\0" + part.encode())
    path = cache_folder() / f"{source.stem}-{key.hexdigest()[:20]}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with own_folder(path.parent, PROGRAM) as folder:
        try:
            os.close(open_own(path, os.O_RDONLY, PROGRAM, folder))
        except FileNotFoundError:
            with draft_of(path) as draft:
                _output([compiler, str(source), *flags, "-o", str(draft)])
                draft.chmod(0o755)
    return path


def cache_folder() -> Path:
    """Return the path of the folder of built programs, which need not exist: $XDG_CACHE_HOME/aiperf, else ~/.cache/aiperf."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "aiperf"


def _output(command: list[str]) -> str:
    try:
        ended = ask(command, seconds=BUILD_SECONDS)
    except ProgramFailed as error:
        raise BadConfiguration(str(error)) from error
    if ended.status:
        messages = ended.errors.strip()[:_LONGEST_SHOWN]
        raise BadConfiguration(
            f"{command[0]!r} failed with status {ended.status}: {messages}. Correct it, then repeat: {' '.join(command)}"
        )
    return ended.output
