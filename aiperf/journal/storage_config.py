"""Options for the location of a run's files while it runs. All of them end in the run's folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aiperf.option_limits import hold

SHARED, LOCAL = "shared", "local:"
KEEP = ("best", "all", "none")
"""Checkpoints that may remain after the end."""


@dataclass
class StorageConf:
    """Files on the file system shared by all hosts, and files on a host's local disk."""

    journal: str = field(
        default=SHARED,
        metadata={
            "form": (f"{SHARED}|{LOCAL}/.*", f"'{SHARED}', or '{LOCAL}FOLDER' with an absolute path, local:/scratch")
        },
    )
    """shared: written in the run's folder. local:FOLDER: written on the local disk of the driver's host, in FOLDER (an
    absolute path), and copied to the run's folder every 2 s and at the end."""

    telemetry: str = field(default=SHARED, metadata={"among": (SHARED, "local")})
    """shared: written in the run's folder, each second. local: written on the local disk of each worker's host, and copied to
    the run's folder at the end of each trial and of the worker."""

    checkpoints: str = field(default="best", metadata={"among": KEEP})
    """Checkpoints kept after the end of a run: the best one with its graph file, all, or none. A run that ended before its
    time keeps all, because it can be resumed."""

    def __post_init__(self) -> None:
        hold(self, "storage")

    @property
    def is_telemetry_local(self) -> bool:
        """True if telemetry is recorded on the host's local disk."""
        return self.telemetry == "local"

    def local_journal(self) -> Path | None:
        """Return the folder on the driver's host under which the journal is written. None if it is in the run's folder.

        >>> StorageConf("local:/scratch").local_journal(), StorageConf().local_journal()
        (PosixPath('/scratch'), None)
        """
        if self.journal == SHARED:
            return None
        return Path(self.journal.removeprefix(LOCAL))
