"""Errors that a user can fix. Each message names the rule, the offending value and the fix."""

from __future__ import annotations

from pathlib import Path

from aiperf.shell_command import resuming


class AiperfError(Exception):
    """Base of all errors. It is printed without a traceback."""


class JournalDamaged(AiperfError):
    """A line of the journal does not follow from the one before it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """Line number, from 1. None if the damage is not in one line."""


class JournalInUse(AiperfError):
    """A journal that another driver writes."""


class JournalNotWritten(AiperfError):
    """A failed append. The journal is unchanged."""


class JournalNotLocked(AiperfError):
    """A journal that cannot be locked, although no other driver writes it."""


class JournalTakenAway(AiperfError):
    """A journal that was removed, replaced or changed while its driver writes it."""


class NoSuchRun(AiperfError):
    """A folder without a run."""


class NotAJournal(NoSuchRun):
    """A file that is not a journal or cannot be read."""


class CannotResume(AiperfError):
    """A run that has ended, or that has another configuration."""


class CannotFollow(AiperfError):
    """A run that cannot be followed, or that has changed since."""


class CannotCompare(AiperfError):
    """Runs with figures that cannot be compared."""


class OtherRules(AiperfError):
    """Proposals of another version of the rules."""


class BadConfiguration(AiperfError):
    """A configuration that contradicts itself."""


class NoWorkers(AiperfError):
    """A run without workers."""


class NotShared(AiperfError):
    """A folder that is not shared by all hosts."""


class RuntimeNotStarted(AiperfError):
    """A runtime that did not start. The run has not begun."""


class RuntimeLost(AiperfError):
    """A runtime that ended during the run and cannot be replaced."""


class HeadLost(AiperfError):
    """A lost head node, as seen by a joined host. The run can be resumed."""


class SchedulerRefused(AiperfError):
    """A scheduler that is missing or refused a job."""


class HostNotReached(AiperfError):
    """A host that cannot be reached or could not join. The run has not begun."""


class RunStopped(AiperfError):
    """A run that stopped. Its journal is intact, and it can be resumed."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"{why}. The run stopped there; nothing is lost but what was in progress. Go on with it: {resuming(folder)}"
        )
        self.folder = folder


class ReportNotWritten(AiperfError):
    """A report that could not be written. The run is unchanged."""


class KeyUnusable(AiperfError):
    """A key that cannot sign, or an unreadable list of keys."""


class AnnouncementsDamaged(AiperfError):
    """A line of a log of announcements does not follow from the one before it."""


class AnnouncementsNotWritten(AiperfError):
    """A line that could not be added to a log of announcements. The log is unchanged."""


class NotAsAnnounced(AiperfError):
    """A run that differs from its announcement, or has none."""


class BundleRefused(AiperfError):
    """An archive that is no submission or is unsafe to unpack."""


class BadPower(AiperfError):
    """An unreadable form or table of an external power meter."""
