"""Group of a worker's ranks, as handled by the worker's process on its host. No torch here.

After the loss of a rank or host the attempt ends with a Crashed, and a new group is started, without a failed accelerator.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Pipe

from aiperf.errors import AiperfError
from aiperf.files import host_name
from aiperf.journal.events import CeilingMeasured, TrialHeartbeat
from aiperf.journal.messages import CheckpointGone, Crashed, Drop, Message, Sum, Train, TrialDone
from aiperf.system.control_groups import usable_processors
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankPlace, Ready, Recipe, seats
from aiperf.train.ranks.remote_ranks import DistantHost
from aiperf.train.ranks.started_group import Ranks, StartFailed
from aiperf.train.trainer_config import ranks_of_hosts

_LOOK_SECONDS = 0.2
"""Interval at which processes and heartbeats are polled, in seconds."""
HEARTBEAT_SECONDS = 60.0
"""Report the state of the slowest rank after this many seconds without a message of the trial. Far below
`limits.silence_seconds`."""
_STARTS = 2
"""Consecutive failed starts after which the worker ends."""
_DEVICE_FAILURES = 2
"""Failures of one accelerator, at starts or in trials, after which it is excluded for the rest of the group's life."""


class WorkerEnded(AiperfError):
    """Error of a worker that cannot train any more, because none of its ranks (processes) can be started."""


class _Fixable(Exception):
    """The ranks cannot continue until the user has fixed something."""


class RankGroup:
    """Ranks of one worker. Call `start` once, then `order` and `messages` repeatedly, then `close`, from any thread."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        accelerators: int,
        address: str = "",
        others: Sequence[DistantHost] = (),
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Raise BadConfiguration for more ranks than accelerators, or ranks that cannot be divided among the hosts.

        `accelerators`: CUDA devices that the worker owns, 0 for none. `recipe.cores`: its share of the host's. `others`:
        further hosts, which reach this one at `address`.
        """
        self._recipe = replace(recipe, cores=min(recipe.cores, usable_processors()))
        hosts = [(accelerators, self._recipe.cores), *((other.accelerators, other.cores) for other in others)]
        self._devices: list[list[int | None]] = [
            list(range(ranks)) if has else [None] * ranks
            for ranks, (has, _) in zip(ranks_of_hosts(recipe.conf, hosts), hosts, strict=True)
        ]
        """Devices of each host, this one's first."""
        self._others = list(others)
        self._address = address
        self._on_close = on_close
        self._starts = 0
        self._device_failures: Counter[tuple[str, int | None]] = Counter()
        """Number of failures by host and accelerator."""
        self._checkpoints = CheckpointFolder(recipe.run_folder / "checkpoints")
        self._host = host_name()
        self._messages: queue.SimpleQueue[Message | WorkerEnded] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: ExecuteOrder | None = None
        self._doing: ExecuteOrder | None = None
        self._sums_asked = False
        self._last_message = 0.0
        self._closing = False
        self._ended: WorkerEnded | None = None
        self._ranks: Ranks | None = None
        self._woken, self._wake_end = Pipe(duplex=False)
        self._first: Future[Ready] = Future()
        # the ranks die with the thread that starts them, so it is one that lives as long as the group
        self._supervisor = threading.Thread(target=self._supervise, name="rank-group", daemon=True)

    # --- for the owner

    def start(self) -> Ready:
        """Wait until the ranks can train. Raise AiperfError for a fault that the user can fix, else WorkerEnded."""
        self._supervisor.start()
        return self._first.result()

    def order(self, order: Train | Drop | Sum) -> None:
        """Begin to execute an order, and return at once. The results arrive by `messages`.

        Train: only one at a time. Drop: the checkpoints of a trial are removed before the return. Raise OSError if a file
        cannot be removed. Sum: report the progress of the current trial now.
        """
        if isinstance(order, Drop):
            self._checkpoints.drop(order.trial)
            return
        if isinstance(order, Sum):
            with self._lock:
                self._sums_asked = True
            self._wake()
            return
        with self._lock:
            assert self._doing is None and self._waiting is None, (
                f"trial {order.trial} ordered while another is trained"
            )
            self._waiting = ExecuteOrder(order, time.monotonic())
        self._wake()

    def messages(self, timeout: float) -> list[Message]:
        """Wait up to `timeout` seconds for the first message. Raise WorkerEnded after the last one."""
        messages: list[Message] = []
        try:
            message = self._messages.get(timeout=timeout)
            while True:
                if isinstance(message, WorkerEnded):
                    self._messages.put(message)
                    if messages:
                        return messages
                    raise message
                messages.append(message)
                message = self._messages.get_nowait()
        except queue.Empty:
            return messages

    def pids(self) -> tuple[int, ...]:
        """By rank, each valid on its own host. 0 for a rank on another host that has not been observed yet."""
        with self._lock:
            return tuple(status.pid for status in self._ranks.statuses) if self._ranks else ()

    @property
    def is_alive(self) -> bool:
        """True if the group can train, now or after a current restart."""
        return self._ended is None and not self._closing

    def close(self) -> None:
        """End all ranks: 5 s for the checkpoint being written, 30 s or more for ranks that cannot be killed."""
        with self._lock:
            self._closing = True
        self._wake()
        if self._supervisor.is_alive():
            self._supervisor.join()
        self._on_close()

    # --- the supervisor's thread

    def _supervise(self) -> None:
        try:
            ranks = self._bring_up()
            assert ranks.ready is not None
            if largest := ranks.ready.largest_batch:
                self._messages.put(
                    CeilingMeasured(worker=self._recipe.worker, family=ranks.ready.family, batch_size=largest)
                )
            hosts = (self._host, *(other.name for other in self._others)) if self._others else ()
            self._first.set_result(replace(ranks.ready, hosts=hosts))
            while True:
                lost = self._serve(ranks)
                if lost is None:
                    # a checkpoint that is being written is finished within 5 s, or not
                    ranks.release(5.5, self._woken)
                    return
                failure, rank = lost
                self._set_ranks(None)
                ranks.kill()
                self._report_end(
                    failure
                )  # before waiting for the processes: the driver may give the trial to another worker
                self._await_end(ranks)
                if failure.is_fixable:  # another start would end the same way
                    raise _Fixable(failure.reason)
                if failure.is_device and ranks.failed_devices() == 1:
                    self._count_device_failure(StartFailed(failure, ranks.seats[rank]))
                ranks = self._bring_up()
        except _Fixable as error:
            self._ended = WorkerEnded(str(error))
            self._messages.put(self._ended)
        except StartFailed as error:
            reason = f"no rank can be started on {self._host}: {error}"
            self._ended = WorkerEnded(reason)
            if not self._first.done():
                self._first.set_exception(AiperfError(str(error)) if error.failure.is_fixable else self._ended)
            if self._waiting is not None:
                self._doing = self._waiting
                self._report_end(FailureReport(reason))
            self._messages.put(self._ended)
        except BaseException as error:
            self._ended = WorkerEnded(
                f"the supervisor of the ranks on {self._host} failed: {error!r}. Report this as a defect of AIPerf and attach "
                "the journal"
            )
            if not self._first.done():
                self._first.set_exception(error)
            self._messages.put(self._ended)
            raise
        finally:
            left, self._ranks = self._ranks, None
            if left is not None:
                left.end()

    def _await_end(self, ranks: Ranks) -> None:
        """Raise StartFailed if a rank cannot be ended, because its accelerator and memory remain in use."""
        for rank, how in ranks.end():
            raise StartFailed(
                FailureReport(f"{ranks.named(rank)} cannot be killed: {how}", is_final=True), ranks.seats[rank]
            )

    def _bring_up(self) -> Ranks:
        """Start as many ranks as possible. Raise StartFailed if none is left to try.

        A rank is excluded only for a fault of its accelerator, a host only if it was started once and is lost. Other
        faults would occur without that rank too, and a worker must not silently continue with fewer ranks than
        requested. Failures of two accelerators, in one start or in several, have a common cause, such as the driver.
        """
        failures = 0
        failed_devices: set[tuple[str, int | None]] = set()
        while True:
            self._leave_lost_hosts_out()
            try:
                return self._start_ranks()
            except StartFailed as error:
                if error.failure.is_fixable or error.failure.is_final or self._closing:
                    raise
                if any(other.lost is not None for other in self._others):
                    if self._first.done():
                        continue
                    raise
                if error.failure.is_device:
                    failed_devices.add(self._device(error.seat))
                if max(error.failed_devices, len(failed_devices)) > 1:  # other starts would fail in the same way
                    raise
                if error.failure.is_device:
                    self._count_device_failure(error)
                    continue
                failures += 1
                if failures == _STARTS:
                    raise

    def _count_device_failure(self, error: StartFailed) -> None:
        """Exclude an accelerator at its second failure. Raise the error if it is the last one of this host."""
        seat, device = error.seat, self._device(error.seat)
        self._device_failures[device] += 1
        if self._device_failures[device] < _DEVICE_FAILURES:
            return
        own = self._devices[seat.host]
        if seat.host == 0 and len(own) == 1:
            raise error
        del own[seat.local_rank]
        self._device_failures.pop(device)

    def _device(self, seat: RankPlace) -> tuple[str, int | None]:
        """Return a rank's host and accelerator. The number of a host changes when another host is lost."""
        return self._host if seat.host == 0 else self._others[seat.host - 1].name, seat.accelerator

    def _leave_lost_hosts_out(self) -> None:
        remaining = [
            pair for pair in zip(self._others, self._devices[1:], strict=True) if pair[0].lost is None and pair[1]
        ]
        self._others = [other for other, _ in remaining]
        self._devices[1:] = [devices for _, devices in remaining]

    def _start_ranks(self) -> Ranks:
        self._starts += 1
        places = seats(self._devices)
        try:
            ranks = Ranks(self._recipe, places, self._starts, self._host, self._address, self._others)
        except OSError as error:
            raise StartFailed(FailureReport(str(error), is_final=True), places[0]) from error
        self._set_ranks(ranks)
        try:
            ranks.start()
            self._await_ready(ranks)
            ranks.have_met()
        except BaseException:
            self._set_ranks(None)
            self._await_end(ranks)
            raise
        return ranks

    def _await_ready(self, ranks: Ranks) -> None:
        missing = {seat.rank for seat in ranks.seats}
        while missing:
            for rank, message in ranks.receive(_LOOK_SECONDS, self._woken):
                match message:
                    case Ready():
                        missing.discard(rank)
                        if rank == 0:
                            ranks.ready = message
                    case FailureReport():
                        raise self._not_started(ranks, *ranks.cause(self._woken, self._report))
            if self._closing:
                raise StartFailed(FailureReport("closed while it started"), ranks.seats[0])
            if ranks.has_ended() or ranks.lost() is not None:
                raise self._not_started(ranks, *ranks.cause(self._woken, self._report))
            if (hung := ranks.hung(self._recipe.conf.hang_seconds)) is not None:
                rank, how = hung
                raise self._not_started(ranks, FailureReport(f"{ranks.named(rank)} {how}"), rank)

    def _not_started(self, ranks: Ranks, failure: FailureReport, rank: int) -> StartFailed:
        refused = replace(failure, reason=failure.reason + ranks.refused)
        return StartFailed(refused, ranks.seats[rank], ranks.failed_devices())

    def _serve(self, ranks: Ranks) -> tuple[FailureReport, int] | None:
        """Send orders down and messages up until something fails. Return the failure and its rank. None if the group closes."""
        while True:
            with self._lock:
                if self._closing:
                    return None
                do, self._waiting = self._waiting, None
                if do is not None:
                    self._doing = do
                asked, self._sums_asked = self._sums_asked, False
            if do is not None:
                self._last_message = time.monotonic()
                ranks.send(do)
            if asked:
                ranks.heartbeats.ask_for_sums()
            has_failed = False
            for _, message in ranks.receive(_LOOK_SECONDS, self._woken):
                match message:
                    case FailureReport():
                        has_failed = True  # messages received with it are reported first
                    case Ready():
                        raise AssertionError("a rank was ready twice")
                    case _:
                        self._report(message)
            for message in ranks.host_messages():
                self._messages.put(message)
            if has_failed or ranks.has_ended() or ranks.lost() is not None:
                return ranks.cause(self._woken, self._report)
            if (hung := ranks.hung(self._recipe.conf.hang_seconds)) is not None:
                rank, how = hung
                return FailureReport(f"{ranks.named(rank)} {how}"), rank
            self._show_life(ranks)

    def _show_life(self, ranks: Ranks) -> None:
        with self._lock:
            doing = self._doing
        now = time.monotonic()
        if doing is None or now - self._last_message < HEARTBEAT_SECONDS:
            return
        rank, what = ranks.slowest()
        order = doing.order
        self._report(TrialHeartbeat(trial=order.trial, attempt=order.attempt, doing=f"{ranks.named(rank)} {what}"))

    def _report(self, message: Message) -> None:
        if isinstance(message, TrialDone | Crashed | CheckpointGone):
            with self._lock:
                self._doing = None
        self._last_message = time.monotonic()
        self._messages.put(message)

    def _report_end(self, failure: FailureReport) -> None:
        with self._lock:
            doing, self._doing = self._doing, None
            self._waiting = None if doing is not None and self._waiting is doing else self._waiting
        if doing is not None:
            for message in failure.messages:
                self._messages.put(message)
            order = doing.order
            self._messages.put(
                Crashed(
                    trial=order.trial,
                    attempt=order.attempt,
                    reason=failure.reason,
                    retry=failure.retry,
                    cause=failure.cause,
                )
            )

    def _set_ranks(self, ranks: Ranks | None) -> None:
        with self._lock:
            self._ranks = ranks

    def _wake(self) -> None:
        with self._lock:
            self._wake_end.send_bytes(b"")
