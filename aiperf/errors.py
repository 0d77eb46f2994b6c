"""The benchmark's own errors, all of which a user can fix. Each says the law, the offence and the remedy."""

from __future__ import annotations

from pathlib import Path

from aiperf.typed import resuming


class AiperfError(Exception):
    """The base of all. Printed without a traceback: the message is all there is to know."""


class JournalDamaged(AiperfError):
    """A line of the journal does not follow from the one before it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """From 1. None: it is of no one line."""


class JournalInUse(AiperfError):
    """Another driver writes this journal."""


class JournalNotWritten(AiperfError):
    """An append failed; the journal stands as it stood before it."""


class JournalNotLocked(AiperfError):
    """A lock on the journal could not be had, for another reason than another driver."""


class JournalTakenAway(AiperfError):
    """The journal was removed, replaced or changed under the driver that writes it."""


class NoSuchRun(AiperfError):
    """A folder that holds no run."""


class NotAJournal(NoSuchRun):
    """A file that is another thing than a journal, or cannot be read."""


class CannotResume(AiperfError):
    """A run that is over, or that another configuration is asked of."""


class CannotFollow(AiperfError):
    """A run whose trials no other can train again, or that is not the one it was."""


class CannotCompare(AiperfError):
    """Runs whose figures cannot stand against each other."""


class OtherRules(AiperfError):
    """Proposals that were made by another version of the rules than this one's."""


class BadConfiguration(AiperfError):
    """A configuration that contradicts itself."""


class NoWorkers(AiperfError):
    """Nothing to train on."""


class NotShared(AiperfError):
    """A folder that all hosts are to share is not the same on one of them."""


class RuntimeNotStarted(AiperfError):
    """What carries a run's orders out did not come up: there is no run yet."""


class RuntimeLost(AiperfError):
    """What carries a run's orders out is gone, and cannot be replaced while the run goes on."""


class HeadLost(AiperfError):
    """The head of a run has gone, as a host sees that had joined it; the run can be gone on with."""


class SchedulerRefused(AiperfError):
    """The scheduler that is to bring the machines is not there, or would not."""


class HostNotReached(AiperfError):
    """A host of the run cannot be reached, or could not join: nothing has begun."""


class RunStopped(AiperfError):
    """A run that cannot go on now: its journal stands as it stood, and it can be taken up again."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"{why}. The run stopped there; nothing is lost but what was in progress. Go on with it: {resuming(folder)}"
        )
        self.folder = folder


class ReportNotWritten(AiperfError):
    """A report that could not be written; the run that it is of stands as it stood."""


class KeyUnusable(AiperfError):
    """A key that cannot sign, or a list of keys that cannot be read."""


class AnnouncementsDamaged(AiperfError):
    """A line of a log of announcements does not follow from the one before it."""


class AnnouncementsNotWritten(AiperfError):
    """A line could not be added to a log of announcements; it stands as it stood."""


class NotAsAnnounced(AiperfError):
    """A run that its announcement does not fit, or that has none."""


class BundleRefused(AiperfError):
    """An archive that is no submission, or that would harm whoever unpacks it."""


class BadPower(AiperfError):
    """A form or a table of an external power meter that cannot be read as one."""
