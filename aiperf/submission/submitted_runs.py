"""Runs that a user names: by folder, or by a submission (NAME.aiperf.tar.gz), which is unpacked until this process ends."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from aiperf.errors import BadConfiguration, BundleRefused, NoSuchRun, explained
from aiperf.files import given_path, shown
from aiperf.journal import run_folder as of_folders
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.submission.archive import ANNOUNCEMENTS, ENDING, SUBMISSION, refused, unpack_submission


def is_submission(name: str | Path) -> bool:
    """Return True if a word names an existing submission by its ending."""
    return (path := given_path(str(name))).name.endswith(ENDING) and path.is_file()


def run_folder(name: str) -> Path:
    """Return the folder of a run by its path, its journal's, its name under runs/, or that of its submission."""
    if not is_submission(name):
        return of_folders.run_folder(name)
    if len(folders := run_folders(name)) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise NoSuchRun(
            f"one run is read here, but {shown(name)} holds {len(folders)} ({names}): unpack it (tar xzf), and name the "
            "folder of one"
        )
    return folders[0]


def run_folders(name: str) -> list[Path]:
    """Return the folders of the runs in a folder or in a submission, or the folder of one run."""
    if not is_submission(name):
        return of_folders.run_folders(name)
    try:
        return submitted_runs(given_path(name))
    except BundleRefused as error:
        raise BundleRefused(f"{shown(name)}: {error}") from error


def submitted_runs(path: Path) -> list[Path]:
    """Unpack a submission after a check of its checksums, not of its signature. Return the folders of its runs."""
    with explained(path, "cannot be unpacked", "Get the file again, or make room in TMPDIR"):
        return _unpacked(path.absolute(), path.stat().st_mtime_ns)


@cache
def _unpacked(path: Path, _changed: int) -> list[Path]:
    folder = Path(tempfile.mkdtemp(prefix="aiperf-submission-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder /= path.name  # the lists name the folder
    folder.mkdir()
    unpacked, submission = unpack_submission(path, folder)
    if unpacked.changed:
        raise refused("members of a submission have their SHA-256 in the manifest", f"{unpacked.changed[0]!r} has not")
    runs = []
    for number, run in enumerate(submission.runs, 1):
        runs.append(folder / "runs" / str(number))
        if not (runs[-1] / JOURNAL).is_file():
            raise refused(
                f"a submission has the journal of each run in its {SUBMISSION}", f"that of {run.run!r} is missing"
            )
        is_name = re.fullmatch("[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,99}", run.run)
        if is_name and not (named := runs[-1].with_name(run.run)).exists():
            runs[-1] = runs[-1].rename(named)
    return runs


def log_beside(run: Path) -> Path | None:
    """Return the log of announcements in the unpacked submission to which a run's folder belongs. None without one."""
    submission = run.absolute().parent.parent
    log = submission / ANNOUNCEMENTS
    return log if (submission / SUBMISSION).is_file() and log.is_file() else None


def require_out(name: str, out: Path | None) -> None:
    """Raise BadConfiguration if a verb would write into the folder of a submission, which is removed."""
    if out is None and is_submission(name):
        raise BadConfiguration(f"a submission is only read, but {shown(name)} has no other folder: add --out FOLDER")
