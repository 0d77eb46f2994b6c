"""The ranks of one worker, as their owner on its host sees them. No torch here; works inside a Ray actor and without Ray.

    group = RankGroup(conf.trainer, conf.dataset, encode(start_graph), run_folder, accelerators=0, cores=2)
    ready = group.start()                    # blocks until the ranks can take orders; tells what they have
    group.order(Train(...))                  # one at a time; Drop any time
    while ...:
        for word in group.words(timeout=0.5):  # Ceiling first; then the trial's words, the last Done, Crashed or CheckpointGone
            ...
    group.close()

A rank that is killed is seen within half a second, one that hangs within `conf.hang_seconds`: the attempt then ends with
a Crashed that names rank and host, the other ranks are killed, and a new group is started, with fewer ranks where an
accelerator is at fault. One that is slow is waited for as long as something goes on in it (`hang_watch.py`). An order that
comes meanwhile waits.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from concurrent.futures import Future
from multiprocessing.connection import Pipe, wait
from pathlib import Path

from aiperf.data.dataset_config import DataSetConf
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.journal.messages import Ceiling, CheckpointGone, Crashed, Done, Drop, Heartbeat, Sum, Train, Word
from aiperf.system.control_groups import usable_processors
from aiperf.train.checkpoint_files import CheckpointFolder
from aiperf.train.ranks import fault_attribution, started_group
from aiperf.train.ranks.hang_watch import Watch
from aiperf.train.ranks.process import RankProcess
from aiperf.train.ranks.process_progress import Progress
from aiperf.train.ranks.protocol import Do, Failed, Ready
from aiperf.train.ranks.started_group import NotStarted, Ranks, Recipe
from aiperf.train.stages import Stage
from aiperf.train.trainer_config import TrainerConf, ranks_of_worker

_LOOK_SECONDS = 0.2
"""How often processes and heartbeats are looked at."""
_GRACE_SECONDS = 0.3
"""After the first sign of a failure, so that the rank that caused it is told from those that only noticed."""
_CAUSE_SECONDS = 10.0
"""So long where all that is heard is that another rank is gone: the kernel takes its time to end one that holds much."""
HEARTBEAT_SECONDS = 60.0
"""After so long without a word of the trial one says what its ranks are at. Far below `limits.silence_seconds`."""
_STARTS = 2
"""With as many ranks, before one whose accelerator is at fault is left out, or the worker ends."""


class WorkerEnded(AiperfError):
    """No rank can be started any more."""


class _Fixable(Exception):
    """The ranks cannot go on until the user has fixed something."""


class RankGroup:
    """See the head of this file. All methods may be called from any thread."""

    def __init__(
        self,
        conf: TrainerConf,
        dataset: DataSetConf,
        start_graph: str,
        run_folder: Path,
        *,
        accelerators: int,
        cores: int,
        worker: int = 0,
    ) -> None:
        """`start_graph`: as `morphism.encode` gives it. `run_folder`: checkpoints/, ceilings/ and logs/ are made in it.
        `accelerators`: CUDA devices of this process that the worker owns, 0 for none. `cores`: the worker's share of the
        host's; no more of them are taken than this process may use.

        Raises BadConfiguration for more ranks than accelerators.
        """
        cores = min(cores, usable_processors())
        ranks = ranks_of_worker(conf, accelerators, cores)
        if accelerators and ranks > accelerators:
            raise BadConfiguration(
                f"a rank needs an accelerator of its own; found trainer.ranks={ranks} for {accelerators}: use at most that many"
            )
        self._conf = conf
        self._recipe = Recipe(conf, dataset, start_graph, run_folder, cores, worker)
        self._worker = worker
        self._devices: list[int | None] = list(range(ranks)) if accelerators else [None] * ranks
        self._checkpoints = CheckpointFolder(run_folder / "checkpoints")
        self._host = socket.gethostname()
        self._words: queue.SimpleQueue[Word | WorkerEnded] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: Do | None = None
        self._doing: Do | None = None
        self._sums_asked = False
        self._said = 0.0
        """When a word of the order under way was last said."""
        self._closing = False
        self._ended: WorkerEnded | None = None
        self._ranks: Ranks | None = None
        self._wake_here, self._wake_there = Pipe(duplex=False)
        self._first: Future[Ready] = Future()
        # the ranks die with the thread that starts them, so it is one that lives as long as the group
        self._supervisor = threading.Thread(target=self._supervise, name="rank-group", daemon=True)

    # --- for the owner

    def start(self) -> Ready:
        """Starts the ranks and waits until they can take orders.

        Raises AiperfError for what the user can fix (configuration, data set), WorkerEnded when no rank can be started.
        """
        self._supervisor.start()
        return self._first.result()

    def order(self, order: Train | Drop | Sum) -> None:
        """Train: one at a time, after the last one's final word; taken now, by its clock. Drop: done at once."""
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
            self._waiting = Do(order, time.monotonic())
        self._wake()

    def words(self, timeout: float) -> list[Word]:
        """What was said since, waiting up to `timeout` seconds for the first. Raises WorkerEnded once all is said and no rank
        can be had any more."""
        said: list[Word] = []
        try:
            word = self._words.get(timeout=timeout)
            while True:
                if isinstance(word, WorkerEnded):
                    self._words.put(word)
                    if said:
                        return said
                    raise word
                said.append(word)
                word = self._words.get_nowait()
        except queue.Empty:
            return said

    def pids(self) -> tuple[int, ...]:
        """Process ids of the ranks, by rank; empty while there are none."""
        with self._lock:
            return tuple(process.pid for process in self._ranks.processes) if self._ranks else ()

    @property
    def is_alive(self) -> bool:
        """Whether orders can be carried out, now or after a restart that is under way."""
        return self._ended is None and not self._closing

    def close(self) -> None:
        """Ends the ranks, whatever they are doing; a checkpoint being written is finished if that takes less than 5 s."""
        with self._lock:
            self._closing = True
        self._wake()
        if self._supervisor.is_alive():
            self._supervisor.join()

    # --- the supervisor's thread

    def _supervise(self) -> None:
        try:
            ranks = self._bring_up()
            assert ranks.ready is not None
            self._words.put(
                Ceiling(worker=self._worker, family=ranks.ready.family, batch_size=ranks.ready.largest_batch)
            )
            self._first.set_result(ranks.ready)
            while True:
                failure = self._serve(ranks)
                if failure is None:
                    self._let_go(ranks)
                    return
                self._set_ranks(None)
                ranks.kill()
                self._say_end(failure)  # before waiting for the dead: the driver may give the trial to another worker
                self._bury(ranks)
                if failure.is_fixable:  # another start would end the same way
                    raise _Fixable(failure.reason)
                ranks = self._bring_up()
        except _Fixable as error:
            self._ended = WorkerEnded(str(error))
            self._words.put(self._ended)
        except NotStarted as error:
            reason = f"no rank can be started on {self._host}: {error}"
            self._ended = WorkerEnded(reason)
            if not self._first.done():
                self._first.set_exception(AiperfError(str(error)) if error.failure.is_fixable else self._ended)
            if self._waiting is not None:
                self._doing = self._waiting
                self._say_end(Failed(reason))
            self._words.put(self._ended)
        except BaseException as error:
            self._ended = WorkerEnded(f"the supervisor of the ranks on {self._host} failed: {error!r}")
            if not self._first.done():
                self._first.set_exception(error)
            self._words.put(self._ended)
            raise
        finally:
            left, self._ranks = self._ranks, None
            if left is not None:
                left.end()

    def _bury(self, ranks: Ranks) -> None:
        """Raises NotStarted where a rank cannot be ended: what it holds (its accelerator, its memory) cannot be had again."""
        for process in ranks.end():
            how = (
                f"process {process.pid}, state {process.state() or 'unknown'} after {started_group.DEATH_SECONDS:.0f} s"
            )
            reason = f"{self._named(ranks, process.rank)} cannot be killed: {how}"
            raise NotStarted(Failed(reason, is_final=True), process.rank)

    def _bring_up(self) -> Ranks:
        """Starts as many ranks as can be had. Raises NotStarted when there is none left to try.

        A rank is left out for a fault of its accelerator alone: what is slow, was killed or fails otherwise would be so without
        it too, and a worker that quietly goes on with less than it has is not the one that was asked for.
        """
        while True:
            for attempt in range(1, _STARTS + 1):
                try:
                    return self._start_ranks()
                except NotStarted as error:
                    is_final = error.failure.is_fixable or error.failure.is_final or self._closing
                    can_do_without = error.failure.is_device and len(self._devices) > 1
                    if is_final or (attempt == _STARTS and not can_do_without):
                        raise
                    failed = error.rank
            # the same rank's device failed again: go on without it
            del self._devices[failed]

    def _start_ranks(self) -> Ranks:
        count = len(self._devices)
        ranks = self._recipe.open(count)
        self._set_ranks(ranks)
        try:
            for rank, device in enumerate(self._devices):
                process = self._recipe.start(ranks, rank, count, device)
                with self._lock:
                    ranks.processes.append(process)
            now = time.monotonic()
            ranks.watch = Watch(ranks.heartbeats, [Progress(process.pid, now) for process in ranks.processes])
            self._await_ready(ranks)
        except BaseException:
            self._set_ranks(None)
            self._bury(ranks)
            raise
        return ranks

    def _await_ready(self, ranks: Ranks) -> None:
        missing = set(range(len(ranks.processes)))
        while missing:
            for process, message in self._hear(ranks, _LOOK_SECONDS):
                match message:
                    case Ready():
                        missing.discard(process.rank)
                        if process.rank == 0:
                            ranks.ready = message
                    case Failed():
                        failure, rank = self._cause(ranks)
                        raise NotStarted(failure, rank)
            if self._closing:
                raise NotStarted(Failed("closed while it started"), 0)
            if any(process.has_ended() for process in ranks.processes):
                failure, rank = self._cause(ranks)
                raise NotStarted(failure, rank)
            if (hung := ranks.hung(self._conf.hang_seconds)) is not None:
                rank, how = hung
                raise NotStarted(Failed(f"{self._named(ranks, rank)} {how}"), rank)

    def _serve(self, ranks: Ranks) -> Failed | None:
        """Hands orders down and words up until something fails; None when the group is to be closed."""
        while True:
            with self._lock:
                if self._closing:
                    return None
                do, self._waiting = self._waiting, None
                if do is not None:
                    self._doing = do
                asked, self._sums_asked = self._sums_asked, False
            if do is not None:
                self._said = time.monotonic()
                for process in ranks.processes:
                    ranks.heartbeats.beat(process.rank, 0, Stage.BUILD, self._conf.start_seconds)
                    process.send(do)
            if asked:
                ranks.heartbeats.ask_for_sums()
            has_failed = False
            for _, message in self._hear(ranks, _LOOK_SECONDS):
                match message:
                    case Failed():
                        has_failed = True  # words heard with it are said first
                    case Ready():
                        raise AssertionError("a rank was ready twice")
                    case word:
                        self._say(word)
            if has_failed or any(process.has_ended() for process in ranks.processes):
                return self._cause(ranks)[0]
            if (hung := ranks.hung(self._conf.hang_seconds)) is not None:
                rank, how = hung
                return Failed(f"{self._named(ranks, rank)} {how}")
            self._show_life(ranks)

    def _show_life(self, ranks: Ranks) -> None:
        """A trial of which nothing is to be said for long, and none of whose ranks hangs: the driver hears that it goes on."""
        with self._lock:
            doing = self._doing
        now = time.monotonic()
        if doing is None or now - self._said < HEARTBEAT_SECONDS:
            return
        rank, what = ranks.slowest()
        order = doing.order
        self._say(Heartbeat(trial=order.trial, attempt=order.attempt, doing=f"{self._named(ranks, rank)} {what}"))

    def _hear(self, ranks: Ranks, timeout: float) -> list[tuple[RankProcess, Ready | Word | Failed]]:
        """What ranks have sent, waiting up to `timeout` for the first, or for a call of the owner."""
        by_pipe: dict[object, RankProcess] = {
            process.pipe: process for process in ranks.processes if not process.pipe.closed
        }
        heard = []
        for pipe in wait([*(process.pipe for process in by_pipe.values()), self._wake_here], timeout):
            if pipe is self._wake_here:
                self._wake_here.recv_bytes()
                continue
            process = by_pipe[pipe]
            message = process.receive()
            if message is not None:
                heard.append((process, message))
        return heard

    def _say(self, word: Word) -> None:
        if isinstance(word, Done | Crashed | CheckpointGone):
            with self._lock:
                self._doing = None
        self._said = time.monotonic()
        self._words.put(word)

    def _say_end(self, failure: Failed) -> None:
        """The attempt's last words, when there is one."""
        with self._lock:
            doing, self._doing = self._doing, None
            self._waiting = None if doing is not None and self._waiting is doing else self._waiting
        if doing is not None:
            for word in failure.words:
                self._words.put(word)
            order = doing.order
            self._words.put(
                Crashed(
                    trial=order.trial,
                    attempt=order.attempt,
                    reason=failure.reason,
                    retry=failure.retry,
                    cause=failure.cause,
                )
            )

    def _cause(self, ranks: Ranks) -> tuple[Failed, int]:
        """Which rank it was, after a moment in which the others' failures come in too."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < _CAUSE_SECONDS:
            if passed > _GRACE_SECONDS and fault_attribution.is_clear(ranks.processes):
                break
            for _, message in self._hear(ranks, 0.05):
                if not isinstance(message, Ready | Failed):
                    self._say(message)
        culprit = fault_attribution.culprit(ranks.processes, ranks.heartbeats)
        return fault_attribution.failure(culprit, self._named(ranks, culprit.rank)), culprit.rank

    def _named(self, ranks: Ranks, rank: int) -> str:
        return f"rank {rank} of {len(ranks.processes)} on {self._host}"

    def _let_go(self, ranks: Ranks) -> None:
        for process in ranks.processes:
            process.hang_up()
        deadline = time.monotonic() + 5.5
        while time.monotonic() < deadline and not all(process.has_ended() for process in ranks.processes):
            time.sleep(0.01)

    def _set_ranks(self, ranks: Ranks | None) -> None:
        with self._lock:
            self._ranks = ranks

    def _wake(self) -> None:
        with self._lock:
            self._wake_there.send_bytes(b"")
