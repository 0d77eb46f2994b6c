"""Where what a run writes lies first, as a user chooses it. All of it comes to lie in the run's folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aiperf.option_limits import hold

SHARED, LOCAL = "shared", "local:"
KEEP = ("best", "all", "none")
"""What of the checkpoints may stay after the end."""


@dataclass
class StorageConf:
    """What lies on the file system that all hosts share, and what on a host's own disk."""

    journal: str = field(
        default=SHARED,
        metadata={
            "form": (f"{SHARED}|{LOCAL}/.*", f"'{SHARED}', or '{LOCAL}FOLDER' with an absolute path, local:/scratch")
        },
    )
    """shared: written in the run's folder. local:FOLDER: written on the own disk of the driver's host, in FOLDER, an absolute
    path, and copied to the run's folder every 2 s and at the end."""

    telemetry: str = field(default=SHARED, metadata={"among": (SHARED, "local")})
    """shared: written in the run's folder, each second. local: on the own disk of each worker's host, and shipped to the run's
    folder at the end of each trial and of the worker."""

    checkpoints: str = field(default="best", metadata={"among": KEEP})
    """What stays of them once a run's time is over: the best one with its graph file, all, or none. A run that ended before
    its time keeps all, since it can be resumed."""

    def __post_init__(self) -> None:
        hold(self, "storage")

    @property
    def is_telemetry_local(self) -> bool:
        """Whether it is recorded on the host's own disk."""
        return self.telemetry == "local"

    def local_journal(self) -> Path | None:
        """The folder on the driver's host under which the journal is written; None: it is in the run's.

        >>> StorageConf("local:/scratch").local_journal(), StorageConf().local_journal()
        (PosixPath('/scratch'), None)
        """
        if self.journal == SHARED:
            return None
        return Path(self.journal.removeprefix(LOCAL))
