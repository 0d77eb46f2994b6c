"""Workers as actors of a Ray cluster: the head is the master, each worker a placement group on one node.

Nodes that join later bring workers too; a worker that dies is replaced, under a new number, as long as its node lives.
Ray's own view of trials does not exist: the journal is the truth, and these actors only train and propose.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, assert_never

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from aiperf.drive.actors import Generator, OpenGroup, WorkerHost, WorkerPlan, open_ranks
from aiperf.drive.mailbox import Mailbox, opened
from aiperf.drive.places import Place, places
from aiperf.errors import AiperfError, NoWorkers
from aiperf.messages import Drop, Order, Propose, Release, Train, Unproposed, Word, WorkerDown, WorkerUp
from aiperf.propose import Proposer
from searchers.history import News, Space

LOOK_SECONDS = 1.0
"""How often dead workers and new nodes are looked for."""
STARTS = 3
"""A place where so many workers in a row never came up gets no more."""
GENERATOR_NICENESS = 10
"""Where ranks and generator share cores training goes first: the next proposal is asked for just when a trial is prepared."""


@dataclass(slots=True)
class _Worker:
    """A worker's actors, and how much of the news its generator has."""

    place: Place
    group: PlacementGroup
    host: Any
    """Actor handles; their stubs (Ray 2.60) take every method of an actor for one that never returns."""
    generator: Any
    life: ray.ObjectRef[Any]
    told: int = 0
    """News that its generator has."""
    proposing: tuple[tuple[int, ray.ObjectRef[Any]], ...] = ()
    """Numbers it was asked for, and the calls."""


class RayExecutor:
    """Carries orders out on the Ray cluster that this process is connected to."""

    def __init__(
        self,
        plan: WorkerPlan,
        proposer: Proposer,
        space: Space,
        *,
        first_worker: int,
        accelerators_per_worker: int | None,
        open_group: OpenGroup = open_ranks,
    ) -> None:
        """`plan` is that of all workers; place and number are filled in for each. Ray must have been initialised."""
        self._plan = plan
        self._proposer = proposer
        self._space = space
        self._next = first_worker
        self._accelerators = accelerators_per_worker
        self._open_group = open_group
        self._workers: dict[int, _Worker] = {}
        self._news: list[News] = []
        self._own: list[Word] = []
        self._looked = 0.0
        self._up: set[int] = set()
        self._vain: dict[Place, int] = {}
        """Starts in a row that brought no worker up."""
        head = ray.get_runtime_context().get_node_id()
        self._mailbox = Mailbox.options(  # type: ignore[attr-defined]
            scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False)
        ).remote()

    def start(self) -> None:
        """Asks for a worker at every place there is; each says WorkerUp when its ranks stand."""
        self._look()

    def tell(self, news: Sequence[News]) -> None:
        """Kept until a generator is next asked: increments, never the whole history."""
        self._news += news

    def send(self, order: Order) -> None:
        """Passes an order on to the actor it is for; one for a worker that is gone is dropped, since its loss is on its way."""
        match order:
            case Propose() if order.worker in self._workers:
                asked = self._workers[order.worker]
                unheard = self._news[asked.told :]
                call = asked.generator.propose.remote(unheard, order)
                asked.told = len(self._news)
                asked.proposing = (*asked.proposing, (order.number, call))
            case Train() if order.worker in self._workers:
                self._workers[order.worker].host.order.remote(order)
            case Propose() | Train():
                pass
            case Drop():
                # Checkpoints lie in the run's shared folder: any worker can remove one.
                for any_worker in islice(self._workers.values(), 1):
                    any_worker.host.order.remote(order)
            case Release():
                self._remove(order.worker)
            case _:
                assert_never(order)

    def words(self, timeout: float) -> list[Word]:
        """The words that have come; looks for dead workers and new nodes now and then."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._look()
        said, self._own = self._own, []
        said += opened(ray.get(self._mailbox.take.remote(0.0 if said else timeout)))
        for word in said:
            if isinstance(word, WorkerUp) and word.worker in self._workers:
                self._up.add(word.worker)
                self._vain.pop(self._workers[word.worker].place, None)
        return said

    def close(self) -> None:
        """Ends all workers."""
        for number in list(self._workers):
            self._workers[number].host.end.remote()
        lives = [worker.life for worker in self._workers.values()]
        if lives:
            ray.wait(lives, num_returns=len(lives), timeout=5.0)
        for number in list(self._workers):
            self._remove(number)

    def _look(self) -> None:
        self._looked = time.monotonic()
        by_life = {worker.life: number for number, worker in self._workers.items()}
        if by_life:
            over, _ = ray.wait(list(by_life), num_returns=len(by_life), timeout=0.0)
            for life in over:
                self._bury(by_life[life], life)
        for number in self._workers:
            self._hear_generator(number)
        taken = [worker.place for worker in self._workers.values()]
        for place in self._places():
            if place not in taken and self._vain.get(place, 0) < STARTS:
                self._place(place)

    def _places(self) -> list[Place]:
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return places(nodes, self._accelerators)

    def _bury(self, number: int, life: ray.ObjectRef[Any]) -> None:
        try:
            ray.get(life)
            reason = "its host actor ended"
        except RayActorError as error:
            reason = f"its host actor died: {str(error).splitlines()[0]}"
        except RayTaskError as error:
            if isinstance(error.cause, AiperfError):
                raise error.cause from error  # what the user can mend is the same at every place
            reason = str(error).strip().splitlines()[-1]
        place = self._workers[number].place
        if number in self._up:
            self._own.append(WorkerDown(worker=number, reason=reason))
        else:
            self._vain[place] = self._vain.get(place, 0) + 1
        self._remove(number)
        if not self._workers and all(self._vain.get(each, 0) >= STARTS for each in self._places()):
            raise NoWorkers(
                f"a run needs at least one worker; none could be started in {STARTS} tries at each place. The last: {reason}"
            )

    def _hear_generator(self, number: int) -> None:
        """A generator that died takes its proposals along; it is replaced, and told everything anew."""
        worker = self._workers[number]
        calls = {call: wanted for wanted, call in worker.proposing}
        if not calls:
            return
        over, pending = ray.wait(list(calls), num_returns=len(calls), timeout=0.0)
        failed = []
        for call in over:
            try:
                ray.get(call)
            except RayError as error:
                failed.append((calls[call], str(error).strip().splitlines()[-1]))
        worker.proposing = tuple((calls[call], call) for call in pending)
        if failed:
            failed += [(wanted, "its generator died") for wanted, _ in worker.proposing]
            ray.kill(worker.generator)
            worker.generator = self._generator(worker.group)
            worker.told, worker.proposing = 0, ()
            self._own += [Unproposed(number=wanted, reason=f"no proposal: {why}") for wanted, why in failed]

    def _generator(self, group: PlacementGroup) -> ActorHandle[Any]:
        strategy = PlacementGroupSchedulingStrategy(group)
        actor: ActorHandle[Any] = Generator.options(scheduling_strategy=strategy).remote(  # type: ignore[attr-defined]
            self._proposer, self._space, self._mailbox, GENERATOR_NICENESS
        )
        return actor

    def _place(self, place: Place) -> None:
        number, self._next = self._next, self._next + 1
        group = placement_group([place.bundle()], strategy="STRICT_PACK")
        plan = replace(self._plan, worker=number, accelerators=place.accelerators, cores=place.cores)
        host = WorkerHost.options(  # type: ignore[attr-defined]
            num_cpus=place.cores,
            num_gpus=place.accelerators,
            max_concurrency=4,  # live() never returns while orders come
            scheduling_strategy=PlacementGroupSchedulingStrategy(group),
        ).remote(plan, self._mailbox, self._open_group)
        self._workers[number] = _Worker(place, group, host, self._generator(group), host.live.remote())

    def _remove(self, number: int) -> None:
        worker = self._workers.pop(number, None)
        self._up.discard(number)
        if worker is None:
            return
        ray.kill(worker.host)
        ray.kill(worker.generator)
        remove_placement_group(worker.group)
