"""Exceptions for errors that a user can fix."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiperf.files import shown
from aiperf.shell_command import resuming


class AiperfError(Exception):
    """Base class of all errors that a user can fix. The program prints the message without a traceback and exits with 2."""


class JournalDamaged(AiperfError):
    """A line of a journal (the event log of a run) was changed, removed or contradicts the lines before it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        """Create the error. `message`: text for the user. `line`: number of the damaged line, from 1."""
        super().__init__(message)
        self.line = line
        """Line number, from 1. None if the damage is not in one line."""


class JournalInUse(AiperfError):
    """A journal that another process is writing: the driver (main process) of the same run."""


class JournalNotWritten(AiperfError):
    """A journal, or its copy, that could not be written, for example on a full disk. All lines written before are kept."""


class JournalNotLocked(AiperfError):
    """A journal that cannot be locked, for example because its file system has no locks. No other process writes it."""


class JournalTakenAway(AiperfError):
    """A journal that another program removed, replaced or changed during the run. The run stops."""


class NoSuchRun(AiperfError):
    """A path without a run: there is no folder, no journal in it, or no complete line in the journal."""


class NotAJournal(NoSuchRun):
    """A path in place of a journal that is another file, no regular file, or not readable by this user."""


class CannotResume(AiperfError):
    """A run that cannot be resumed: it reached its declared time, is simulated, or its journal is empty or exists twice."""


class CannotFollow(AiperfError):
    """A run with trials that another run cannot repeat (option follow=RUN), or that changed since the other run began."""


class CannotCompare(AiperfError):
    """Runs that cannot be compared, for example with different data sets, or a wrong argument of a comparison."""


class OtherRules(AiperfError):
    """A run to resume with networks proposed by another version of the proposal rules than that of this installation."""


class BadConfiguration(AiperfError):
    """A wrong option, argument or file of the user, or options that contradict each other or the machine."""


class NoWorkers(AiperfError):
    """A run without a worker (a process group that trains one network at a time): none could be started or used."""


class NotShared(AiperfError):
    """A run folder that some hosts of the run do not see. All hosts need one shared file system."""


class RuntimeNotStarted(AiperfError):
    """A Ray cluster that did not start or cannot be joined. The run has not begun."""


class RuntimeLost(AiperfError):
    """A part of Ray that ended or did not answer during the run, and that cannot be restarted."""


class HeadLost(AiperfError):
    """A head node (the host of the driver) that a joined host cannot reach any more. The run can be resumed."""


class SchedulerRefused(AiperfError):
    """A batch scheduler that is missing, does not answer, or refused a job."""


class HostNotReached(AiperfError):
    """A host that cannot be reached by SSH, or that cannot run the benchmark. The run has not begun."""


class RunStopped(AiperfError):
    """A run that stopped before its declared end. Its journal is intact, and the run can be resumed."""

    def __init__(self, folder: Path, why: str) -> None:
        """Create the error. `folder`: folder of the run. `why`: reason as a sentence without a full stop."""
        super().__init__(
            f"{why}. The run stopped there; nothing is lost but what was in progress. Go on with it: {resuming(folder)}"
        )
        self.folder = folder


class ReportNotWritten(AiperfError):
    """A report that could not be written, for example on a full disk. The run and its journal are complete."""


class PictureNotDrawn(AiperfError):
    """A picture that matplotlib could not draw. The figures that it would show are complete."""


class KeyUnusable(AiperfError):
    """An SSH key that cannot sign, or a file of allowed signers that cannot be read."""


class AnnouncementsDamaged(AiperfError):
    """A line of a site's log of announced runs was changed or removed, or has a wrong signature or hash."""


class AnnouncementsNotWritten(AiperfError):
    """An entry that could not be added to a site's log of announced runs. The log is unchanged."""


class NotAsAnnounced(AiperfError):
    """A run that differs from its announcement (signed entry before the run), or an announcement that is missing or used."""


class BundleRefused(AiperfError):
    """An archive that is no complete submission of runs, or that is unsafe to unpack. Also raised for runs that change."""


class SideProcessLost(AiperfError):
    """A process of a command that another program or the kernel killed. The command can be repeated."""


class BadPower(AiperfError):
    """A form (YAML) or a table (CSV) of an external power meter that cannot be read or has wrong fields."""


@contextmanager
def explained(path: object, failed: str, fix: str, error: type[AiperfError] = BadConfiguration) -> Iterator[None]:
    """Context manager that raises an OSError of its block as PATH FAILED (REASON). FIX: 'x' cannot be read (Is a directory)."""
    try:
        yield
    except OSError as cause:
        is_missing = cause.errno == errno.ENOENT and "read" in failed
        what = "does not exist" if is_missing else f"{failed} ({cause.strerror or cause})"
        raise error(f"{shown(path)} {what}. {fix}") from cause


def conflict(
    one: str, other: str, fix: str = "Leave one of them out", error: type[AiperfError] = BadConfiguration
) -> AiperfError:
    return error(f"{one} cannot be combined with {other}. {fix}")
