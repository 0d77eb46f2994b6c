"""Thread that writes a rank's checkpoint files during training, and removes older ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress

from torch import Tensor

from aiperf.data.batches import Waiting
from aiperf.train.checkpoints.checkpoint import Snapshot, load, save
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder


class Writer:
    """Thread that writes checkpoint files, one at a time, the newest first.

    A snapshot that a newer one replaces while it waits is never written. The last snapshot of a trial is always written.
    """

    def __init__(self, folder: CheckpointFolder, keep_seconds: float, waiting: Waiting = nullcontext) -> None:
        """`waiting`: gives a context manager for each wait for the device."""
        self.folder = folder
        self._waiting_for_device = waiting
        self._keep_seconds = keep_seconds
        self._changed = threading.Condition()
        self._waiting: tuple[Snapshot, Future[bool]] | None = None
        self._finished: int | None = None
        """Trial of which the last snapshot was submitted. None again when its file is written."""
        self._over: set[int] = set()
        """Finished trials of which earlier checkpoints still exist."""
        self._last: int | None = None
        """Trial of the last written file. None if writing failed."""
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def submit(self, snapshot: Snapshot) -> Future[bool]:
        """Queue a snapshot. The future is True when the file is on disk, and False if a newer snapshot replaced it."""
        future: Future[bool] = Future()
        with self._changed:
            overtaken, self._waiting = self._waiting, (snapshot, future)
            self._changed.notify_all()
        if overtaken is not None:
            overtaken[1].set_result(False)
        return future

    def finish(self, trial: int) -> None:
        """Mark the trial as finished, after its last snapshot was submitted.

        Its earlier checkpoints are removed after the first one of another trial is written, because a driver that resumes
        after a crash may need one.
        """
        with self._changed:
            self._finished = trial
            self._changed.notify_all()

    def final_weights(self, trial: int, fingerprint: str) -> Mapping[str, Tensor]:
        """Wait for queued files, and read the newest. Raise NoCheckpoint or DamagedCheckpoint."""
        self.settle()  # its file may still be queued
        return load(self.folder, trial, fingerprint, with_momentum=False).weights

    def settle(self, timeout: float | None = None) -> None:
        """Wait until every queued snapshot is written or has failed. After `timeout` seconds it returns without an error."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_work() and not self._is_writing, timeout)

    def close(self) -> None:
        """Write what is queued, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _has_work(self) -> bool:
        return self._waiting is not None or self._finished is not None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._has_work() or self._is_closed)
                if not self._has_work():
                    return
                waiting, self._waiting = self._waiting, None
                finished = None
                if waiting is None:  # else it is handled after the file is written
                    finished, self._finished = self._finished, None
                self._is_writing = True
            if waiting is not None:
                self._write(*waiting)
            elif finished is not None:
                self._close_trial(finished)

    def _write(self, snapshot: Snapshot, future: Future[bool]) -> None:
        try:
            with self._waiting_for_device():
                snapshot = snapshot.on_host()
            save(snapshot, self.folder)
            self._last = snapshot.trial
            self._clear_up(snapshot.trial)
        except BaseException as error:  # noqa: BLE001  # raised by the future
            self._last = None
            future.set_exception(error)
        else:
            future.set_result(True)

    def _close_trial(self, trial: int) -> None:
        last, self._last = self._last, None
        if last == trial:  # else its last file was not written: the earlier ones are all there is
            self._over.add(trial)

    def _clear_up(self, present: int) -> None:
        """A checkpoint that cannot be removed stays. The new checkpoint is valid in any case."""
        over = self._over - {present}
        self._over -= over
        for trial, seconds in [(present, self._keep_seconds), *((trial, 0.0) for trial in over)]:
            try:
                self.folder.prune(trial, seconds)
            except OSError as error:
                with suppress(OSError):  # the log may be on the same disk
                    print(f"earlier checkpoints of trial {trial} stay: {error}", file=sys.stderr, flush=True)
