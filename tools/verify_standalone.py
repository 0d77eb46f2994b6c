#!/usr/bin/env python3
"""Second implementation of a journal's chain check and score, in one file for Python 3.9 without other packages.

    python verify_standalone.py JOURNAL [--json]

It follows docs/events.md ("The line and its hash") and docs/benchmark.md ("The arithmetic"), shares no code with AIPerf, and
gives equal figures to the last digit. The file can be copied anywhere. Exit status: 0 if the journal is complete, 1 if a line
cannot be true, 2 if there is nothing to check (no file, no journal, unknown schema).

It uses the recorded operation counts, fingerprints and accuracies of trials. `python -m aiperf verify` checks that these belong
to the networks, and that proposals follow from seed and history.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Evaluation = tuple[float, float, Any]  # time, accuracy, and the accuracies of both halves or None

SCHEMA = 1
LONGEST_LINE = 1 << 24
NOT_CHECKED = (
    "operation counts, fingerprints and proposals, which `python -m aiperf verify` recomputes",
    "that accuracies were measured (`python -m aiperf quality` evaluates the sealed weights) and work was done",
    "who wrote the journal: a chain is no signature",
)
LARGEST_COUNT = 2**53
STUDENTS_T = 0.95 * math.sqrt(2 / (1 - 0.95**2))  # 97.5 % quantile, 2 degrees of freedom
TAIL = b',"chain":"'


class NotAJournal(Exception):
    """Nothing to check, with the reason."""


class Untrue(Exception):
    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


# ---- lines and their chain


def members(pairs: list[tuple[str, Any]]) -> Line:
    """Readers disagree on the value of a repeated name."""
    line = dict(pairs)
    if len(line) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object")
    return line


def no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def parsed(body: bytes) -> Any:
    return json.loads(body.decode("utf-8"), object_pairs_hook=members, parse_constant=no_constant)


class Journal:
    """Lines of a file, checked against the hash chain, and totals of what was read."""

    def __init__(self, path: Path) -> None:
        self.path = path / "journal.jsonl" if path.is_dir() else path
        self.lines = 0
        self.chain = b"0" * 64
        self.torn_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as file:
                head = file.read(8)
                if head and not head.startswith(b"{"):
                    raise NotAJournal(f"a journal is lines of JSON objects, but '{self.path}' begins with {head!r}")
                file.seek(0)
                for line in iter(lambda: file.readline(LONGEST_LINE), b""):
                    if not line.endswith(b"\n"):
                        if len(line) == LONGEST_LINE:
                            raise Untrue(
                                self.lines + 1, f"a line has at most {LONGEST_LINE} bytes, but this one is longer"
                            )
                        self.torn_bytes = len(line)
                        break
                    yield self.lines + 1, self._body(line)
        except OSError as error:
            raise NotAJournal(f"'{self.path}' cannot be read ({error.strerror})") from error
        if not self.lines:
            raise NotAJournal(f"'{self.path}' has no complete line")

    def _body(self, line: bytes) -> bytes:
        number = self.lines + 1
        begin = len(line) - 64 - len(TAIL) - 3
        if begin < 1 or line[begin : begin + len(TAIL)] != TAIL or line[-3:] != b'"}\n':
            if line.endswith(b"\r\n"):
                raise Untrue(number, "it ends with \\r\\n because the file was copied as text. Copy it as binary")
            if number == 1:
                raise NotAJournal(f"a journal's lines end with their chain, but line 1 of '{self.path}' has none")
            raise Untrue(number, "it has no chain at its end")
        body = line[:begin] + b"}"
        follows = hashlib.sha256(self.chain + body).hexdigest().encode()
        if follows != line[begin + len(TAIL) : -3]:
            raise Untrue(number, "it does not follow from the line before it: one of the two was changed")
        self.chain = follows
        self.lines = number
        return body


# ---- values


def integer(line: Line, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    value = line[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be an integer from {least} to {most}, but is {value!r}")
    return value


def count(line: Line, name: str) -> int:
    """0 if it is missing, as in journals without detectors."""
    return integer(line, name) if name in line else 0


def real(line: Line, name: str, least: float = 0.0, most: float = 1e12) -> float:
    value = line[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least!r} to {most!r}, but is {value!r}")
    return float(value)


def canonical(value: Any) -> str:
    """Return canonical JSON: sorted members, no spaces, and the fewest digits that are read as the same number."""
    if isinstance(value, dict):
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(one) for one in value) + "]"
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, float) or "e" not in text:
        return text
    digits, _, exponent = text.partition("e")
    # Python writes 5e-05, the journal 0.00005. Both write smaller numbers with an exponent.
    if int(exponent) == -5:
        return f"{'-' * (value < 0)}0.0000{digits.lstrip('-').replace('.', '')}"
    return f"{digits}e{int(exponent)}"


def check_configuration(first: Line) -> None:
    computed = hashlib.sha256(canonical(first["config"]).encode()).hexdigest()
    if first["config_hash"] != computed:
        raise ValueError(f"config_hash is {first['config_hash']}, the hash of its configuration is {computed}")
    schedule = first["config"].get("schedule") or {}
    for name, configured in (
        ("seed", first["config"].get("seed")),
        ("duration_seconds", schedule.get("duration_seconds")),
        ("warmup_seconds", schedule.get("warmup_seconds")),
    ):
        if configured is not None and configured != first[name]:
            raise ValueError(f"{name} is {first[name]!r}, configured is {configured!r}")


# ---- fold of the lines


class Rows:
    def __init__(self) -> None:
        self.worker = array("q")
        self.unit = array("q")  # of the interval's sample: the trial, or the epoch in a run of one trial
        self.start, self.end = array("d"), array("d")
        self.counted = array("d")  # operations: exact, then rounded to a double
        self.busy = array("d")  # seconds · ranks, rounded
        self.wasted = bytearray()

    def __len__(self) -> int:
        return len(self.wasted)

    def share(self, row: int, start: float, end: float) -> float:
        """Two rounded subtractions and a rounded division. An interval without length counts as 1 if its end is inside."""
        a, b = self.start[row], self.end[row]
        if b > a:
            return max(0.0, min(b, end) - max(a, start)) / (b - a)
        return 1.0 if start < b <= end else 0.0


class Attempt:
    def __init__(self, number: int, worker: int, ranks: int, epoch: int, rows: dict[int, list[int]]) -> None:
        self.number, self.worker, self.ranks, self.epoch = number, worker, ranks, epoch
        self.begun: set[int] = set()  # epochs with work of this attempt
        self.unsealed: dict[int, Evaluation] = {}  # by epoch
        self.rows = rows


class Run:
    """Fold over the lines. Call `take` for each line in order."""

    def __init__(self) -> None:
        self.first: Line = {}
        self.is_one_trial = False
        self.at = 0.0
        self.ended: float | None = None
        # by trial: operations of a training image, a validation image, a region
        self.costs: dict[int, tuple[int, int, int]] = {}
        # by trial: operations of a training image, parameters, batch
        self.networks: dict[int, list[int]] = {}
        self.rounds: dict[int, int] = {}
        self.attempts: dict[int, Attempt] = {}  # of unfinished trials
        self.present: dict[int, tuple[float, int]] = {}  # by worker: time of joining, and ranks
        self.changes: list[tuple[float, int]] = []  # in the number of accelerators
        self.stays: dict[int, tuple[float, float]] = {}
        self.down = 0.0
        self.rows = Rows()
        self.evaluations: list[Evaluation] = []
        self.sealed: list[Evaluation] = []  # evaluations with the SHA-256 of their checkpoint
        self.finished, self.round = 0, 0
        self.training_images = self.validation_images = 0

    def take(self, line: Line) -> None:
        kind = line["event"]
        handler = getattr(self, "_" + kind, None)
        if handler is not None:
            handler(line)
        self.at = line["at"]

    def _RunStarted(self, line: Line) -> None:
        real(line, "duration_seconds")
        real(line, "warmup_seconds", 0.0, line["duration_seconds"])
        integer(line["dataset"], "validation_images", 1)
        integer(line["dataset"], "training_images", 1)
        self.first = line
        self.is_one_trial = line["config"].get("limits", {}).get("trials") == 1

    def _RunResumed(self, line: Line) -> None:
        self.ended = None
        self.down += real(line, "down_seconds")
        for worker in list(self.present):
            self._leave(worker, self.at)

    def _RunEnded(self, line: Line) -> None:
        self.ended = line["at"]

    def _WorkerJoined(self, line: Line) -> None:
        worker = integer(line, "worker")
        if worker in self.stays or worker in self.present:
            raise ValueError(f"a worker's number is never reused, but worker {worker} joined before")
        self.present[worker] = (line["at"], integer(line, "ranks", 1))

    def _WorkerLost(self, line: Line) -> None:
        self._leave(integer(line, "worker"), line["at"])

    def _leave(self, worker: int, at: float) -> None:
        joined, ranks = self.present.pop(worker)
        self.stays[worker] = (joined, at)
        self.changes += [(joined, ranks), (at, -ranks)]

    def _ProposalRequested(self, line: Line) -> None:
        self.rounds[integer(line, "number")] = integer(line, "round", 1)

    def _TrialProposed(self, line: Line) -> None:
        number = integer(line, "number")
        training = integer(line, "forward_flops") + integer(line, "backward_flops")
        self.costs[number] = (training, integer(line, "validation_flops"), count(line, "region_flops"))
        self.networks[number] = [training, integer(line, "parameters"), integer(line, "batch_size", 1)]

    def _TrialStarted(self, line: Line) -> None:
        trial, worker = integer(line, "trial"), integer(line, "worker")
        before = self.attempts.get(trial)
        _, ranks = self.present[worker]
        rows = {} if before is None else before.rows
        self.attempts[trial] = Attempt(integer(line, "attempt", 1), worker, ranks, integer(line, "epoch", 1), rows)
        self.rounds[trial] = integer(line, "round", 1)
        self.networks[trial][2] = integer(line, "batch_size", 1)

    def _TrialPrepared(self, line: Line) -> None:
        self.attempts[line["trial"]].ranks = integer(line, "ranks", 1)

    def _BatchReduced(self, line: Line) -> None:
        attempt = self.attempts[line["trial"]]
        self._waste(attempt, attempt.epoch)
        self.networks[line["trial"]][2] = integer(line, "to_batch_size", 1)

    def _Progress(self, line: Line) -> None:
        self._work(line, line)

    def _EpochFinished(self, line: Line) -> None:
        if line.get("interval") is not None:
            self._work(line, line["interval"], count(line, "regions"))
        elif count(line, "regions"):
            raise ValueError("evaluated regions need an interval, but the line has none")
        attempt = self.attempts[line["trial"]]
        attempt.epoch = integer(line, "epoch", 1) + 1
        halves = line.get("halves") and tuple(
            integer(line["halves"], f"{half}_correct") / integer(line["halves"], f"{half}_samples", 1)
            for half in ("even", "odd")
        )
        attempt.unsealed[line["epoch"]] = (line["at"], real(line, "accuracy", 0.0, 1.0), halves)
        self.evaluations.append(attempt.unsealed[line["epoch"]])

    def _CheckpointWritten(self, line: Line) -> None:
        evaluation = self.attempts[line["trial"]].unsealed.pop(integer(line, "epoch", 1), None)
        if evaluation is not None and line.get("sha256") is not None:
            self.sealed.append(evaluation)

    def _TrialFinished(self, line: Line) -> None:
        del self.attempts[line["trial"]]
        self.finished += 1
        self.round = max(self.round, self.rounds[line["trial"]])

    def _TrialFailed(self, line: Line) -> None:
        self.attempts.pop(line["trial"], None)

    def _work(self, line: Line, work: Line, regions: int = 0) -> None:
        trial, epoch = line["trial"], integer(line, "epoch", 1)
        attempt = self.attempts[trial]
        if attempt.number > 1 and epoch not in attempt.begun:
            self._waste(attempt, epoch)
        attempt.begun.add(epoch)
        start, end = real(work, "start"), real(work, "end")
        if not start <= end <= line["at"]:
            raise ValueError(
                f"an interval must end by the time of its line, but it is {start!r} to {end!r} s at {line['at']!r} s"
            )
        training, validation = integer(work, "training_images"), integer(work, "validation_images")
        a_training_image, a_validation_image, a_region = self.costs[trial]
        rows = self.rows
        attempt.rows.setdefault(epoch, []).append(len(rows))
        rows.worker.append(integer(work, "worker"))
        rows.unit.append(epoch if self.is_one_trial else trial)
        rows.start.append(start)
        rows.end.append(end)
        operations = training * a_training_image + validation * a_validation_image + regions * a_region
        rows.counted.append(float(operations))
        rows.busy.append(real(work, "busy_seconds") * attempt.ranks)
        rows.wasted.append(0)
        self.training_images += training
        self.validation_images += validation

    def _waste(self, attempt: Attempt, epoch: int) -> None:
        for row in attempt.rows.pop(epoch, ()):
            self.rows.wasted[row] = 1


def exactly(numbers: Iterable[float]) -> float:
    """Return the sum of numbers, exact and rounded once. It uses integer sums for each denominator (a power of two)."""
    sums: dict[int, int] = {}
    for number in numbers:
        above, below = number.as_integer_ratio()
        sums[below] = sums.get(below, 0) + above
    if not sums:
        return 0.0
    largest = max(sums)
    return sum(above * (largest // below) for below, above in sums.items()) / largest


def held_out(evaluations: list[Evaluation]) -> float | None:
    """Return the error on each half of the evaluation that is best on the other half, averaged. `max` takes the first."""
    halves = [one for _, _, one in evaluations if one]
    if not halves or len(halves) < len(evaluations):
        return None
    by_even, by_odd = (max(halves, key=lambda one: one[half]) for half in (0, 1))
    return float(1.0 - (by_even[1] + by_odd[0]) / 2)


def mean_error(evaluations: list[Evaluation], start: float, end: float, least: float) -> float:
    """Return the best error so far, averaged over the window."""
    steps, best = [(start, 1.0)], -1.0
    for at, quality, _ in evaluations:
        if quality > best:
            best = quality
            steps.append((max(at, start), max(1.0 - quality, least)))
    steps.sort(key=lambda step: (step[0], -step[1]))
    edges = [*(at for at, _ in steps), end]
    return exactly((edges[n + 1] - edges[n]) * min(e for _, e in steps[: n + 1]) for n in range(len(steps))) / (
        end - start
    )


def figures(run: Run) -> dict[str, Any]:
    first, rows = run.first, run.rows
    start = float(first["warmup_seconds"])
    end = min(run.at if run.ended is None else run.ended, float(first["duration_seconds"]))
    seconds = max(0.0, end - start)
    good = [row for row in range(len(rows)) if not rows.wasted[row]]
    counted = [rows.counted[row] * rows.share(row, start, end) for row in good]
    score = exactly(counted) / seconds if seconds > 0 else None
    counted_epochs = [one for one in run.sealed if one[0] <= first["duration_seconds"]] or run.evaluations
    counted_epochs = [one for one in counted_epochs if one[0] <= end]
    best = max((quality for _, quality, _ in counted_epochs), default=None)
    is_accuracy = first.get("metric", "top1") in ("top1", "next_token")
    error = (
        max(1.0 - best, 1.0 / (2 * first["dataset"]["validation_images"])) if is_accuracy and best is not None else None
    )
    between = None
    if score is not None and error is not None:
        square = 1.959963984540054**2 / first["dataset"]["validation_images"]
        side = math.sqrt(square * (error * (1.0 - error) + square / 4))
        ends = ((error + square / 2 + each) / (1.0 + square) for each in (side, -side))
        between = [
            -math.log(min(1.0, max(1 / (2 * first["dataset"]["validation_images"]), end))) * score for end in ends
        ]
    busy = exactly(rows.busy[row] * rows.share(row, start, end) for row in range(len(rows)))
    accelerator_seconds = most_accelerators(run) * seconds
    workers: dict[int, list[float]] = {worker: [] for worker in rows.worker}
    for row, operations in zip(good, counted):
        workers[rows.worker[row]].append(operations)
    return {
        "flops_per_second": score,
        "flops_per_second_interval": interval(run, counted, good, start, seconds),
        "cumulative_flops_per_second": (
            exactly(rows.counted[row] * rows.share(row, 0.0, end) for row in good) / end if end > 0 else 0.0
        ),
        "regulated_flops_per_second": None if score is None or error is None else -math.log(error) * score,
        "regulated_flops_per_second_interval": between,
        "error": error,
        "held_out_error": None if error is None else held_out(counted_epochs),
        "mean_error": (
            mean_error(counted_epochs, start, end, 1.0 / (2 * first["dataset"]["validation_images"]))
            if error is not None and seconds > 0
            else None
        ),
        "quality": best,
        "window_seconds": seconds,
        "trials_finished": run.finished,
        "rounds": run.round,
        "busy_share": busy / accelerator_seconds if accelerator_seconds > 0 else None,
        "wasted_flops": exactly(rows.counted[row] for row in range(len(rows)) if rows.wasted[row]),
        "valid": bool(score and best is not None and run.finished and run.ended is not None),
        "operations_per_worker": {worker: exactly(each) for worker, each in sorted(workers.items())},
        "training_images": run.training_images,
        "validation_images": run.validation_images,
    }


def most_accelerators(run: Run) -> int:
    """At equal times, losses come before joins."""
    present = most = 0
    for _, change in sorted(run.changes + list(run.present.values())):
        present += change
        most = max(most, present)
    return most


def interval(run: Run, counted: list[float], good: list[int], start: float, seconds: float) -> list[float] | None:
    """Method 4, accurate to nine digits. None if the rules give none."""
    end, rows = start + seconds, run.rows
    if run.down > 0 or seconds < 36_000 or not any(counted):
        return None
    expected = None if run.is_one_trial else expected_rates(run, good, start, end)
    even = {row: rows.counted[row] / (expected[rows.unit[row]] if expected else 1.0) for row in good}
    if units_in_a_row(rows, start, seconds) < 8 or has_one_step(rows, even, start, seconds):
        return None
    squares, level = 0.0, math.fsum(even[row] * rows.share(row, start, end) for row in good) / seconds
    for number in (1, 2):
        parts = []
        for row, operations in even.items():
            a = (max(rows.start[row], start) - start) / seconds
            b = (min(rows.end[row], end) - start) / seconds
            half = math.pi * number * max(0.0, b - a) / 2
            parts.append(
                operations
                * rows.share(row, start, end)
                * math.cos(math.pi * number * (a + b) / 2)
                * (math.sin(half) / half if half else 1.0)
            )
        squares += 2 * (math.fsum(parts) / seconds) ** 2
    score = math.fsum(counted) / seconds
    half_width = score / level * STUDENTS_T * (1.2 if expected else 1.1) * math.sqrt(squares / 2)
    return [max(0.0, score - half_width), score + half_width]


def expected_rates(run: Run, good: list[int], start: float, end: float) -> dict[int, float] | None:
    """By trial, relative to the weighted mean of the logarithms. None for fewer than 8 networks."""
    rows = run.rows
    sums: dict[tuple[int, int], list[float]] = {}  # by worker and trial: seconds, operations, seconds · middle
    for row in good:
        length = rows.end[row] - rows.start[row]
        if rows.end[row] > start and rows.start[row] < end and length > 0 and rows.counted[row] > 0:
            one = sums.setdefault((rows.worker[row], rows.unit[row]), [0.0, 0.0, 0.0])
            middle = (rows.start[row] + rows.end[row]) / 2
            for index, amount in enumerate((length, rows.counted[row], length * middle)):
                one[index] += amount
    network = {trial: [math.log(max(1, value)) for value in values] for trial, values in run.networks.items()}
    if len({tuple(network[trial]) for _, trial in sums}) < 8:
        return None
    weight = [seconds for seconds, _, _ in sums.values()]
    mean = [dot(weight, [network[trial][k] for _, trial in sums]) / math.fsum(weight) for k in range(3)]
    phase = [math.pi * (moment / seconds - start) / (end - start) for seconds, _, moment in sums.values()]
    columns = [[math.cos(number * each) for each in phase] for number in (1, 2)]
    columns += [[network[trial][k] - mean[k] for _, trial in sums] for k in range(3)]
    columns.append([math.log(operations / seconds) for seconds, operations, _ in sums.values()])
    of_worker: dict[int, list[int]] = {}
    for index, (worker, _) in enumerate(sums):
        of_worker.setdefault(worker, []).append(index)
    for column in columns:
        for of in of_worker.values():
            own = math.fsum(weight[one] * column[one] for one in of) / math.fsum(weight[one] for one in of)
            for place in of:
                column[place] -= own
    *columns, rate = columns
    factors = [0.0] * 5
    kept: list[tuple[list[float], list[float]]] = []
    for index, column in enumerate(columns):
        made_of = [float(index == one) for one in range(5)]
        for before, parts in kept:
            share = dot(weight, column, before) / dot(weight, before, before)
            column = [one - share * other for one, other in zip(column, before)]
            made_of = [one - share * other for one, other in zip(made_of, parts)]
        square = dot(weight, column, column)
        if square > 1e-4 * math.fsum(weight):
            kept.append((column, made_of))
            slope = dot(weight, column, rate) / square
            factors = [one + slope * other for one, other in zip(factors, made_of)]
    return {
        trial: math.exp(min(3.0, max(-3.0, math.fsum(f * (x - m) for f, x, m in zip(factors[2:], values, mean)))))
        for trial, values in network.items()
    }


def dot(*factors: list[float]) -> float:
    return math.fsum(map(math.prod, zip(*factors)))


def units_in_a_row(rows: Rows, start: float, seconds: float) -> float:
    """The window's length ÷ the mean length of a unit on a worker, weighted by length. 0 without a unit."""
    stretches: dict[tuple[int, int], tuple[float, float]] = {}
    for row in range(len(rows)):
        if rows.end[row] > start and rows.start[row] < start + seconds:
            key = (rows.worker[row], rows.unit[row])
            a, b = stretches.get(key, (math.inf, -math.inf))
            stretches[key] = (min(a, rows.start[row]), max(b, rows.end[row]))
    lengths = [b - a for a, b in stretches.values()]
    squares = exactly(length * length for length in lengths)
    return seconds * exactly(lengths) / squares if squares else 0.0


def has_one_step(rows: Rows, even: dict[int, float], start: float, seconds: float) -> bool:
    length = seconds / 66
    edges = [start + length * index for index in range(67)]
    rate = [0.0] * 66
    for row, operations in even.items():
        first = max(0, int((rows.start[row] - start) / length) - 1)
        last = min(65, int((rows.end[row] - start) / length) + 1)
        for block in range(first, last + 1):
            rate[block] += operations * rows.share(row, edges[block], edges[block + 1]) / length
    step = step_of(rate)
    if step is None:
        return False
    change = math.fsum(rate[step:]) / (66 - step) - math.fsum(rate[:step]) / step
    level = [each - change * (block >= step) for block, each in enumerate(rate)]
    return step_of(level[: step - 1] + level[step + 1 :]) is None


def step_of(rate: list[float]) -> int | None:
    sizes = [abs(rate[at] + rate[at + 1] - rate[at - 1] - rate[at - 2]) / 2 for at in range(2, len(rate) - 1)]
    usual = sorted(sizes)[len(sizes) // 2] / 0.6744897501960817
    largest = max(sizes)
    return 2 + sizes.index(largest) if largest > max(4.5 * usual, 0.01 * math.fsum(rate) / len(rate)) else None


# ---- the program


def check_order(run: Run, line: Line) -> None:
    kind, at = line["event"], real(line, "at")
    if at < run.at:
        raise ValueError(f"time must not decrease, but {at!r} s follows {run.at!r} s")
    if (kind == "RunStarted") == bool(run.first):
        raise ValueError(f"RunStarted must be the first line and no other, but this line is {kind}")
    if run.ended is not None and kind != "RunResumed":
        raise ValueError(f"only RunResumed may follow the end of a run, but {kind} does")


def folded(lines: Iterable[tuple[int, bytes]]) -> Run:
    run = Run()
    for number, body in lines:
        try:
            line = parsed(body)
            if number == 1:
                check_first(line)
                check_configuration(line)
            elif line["event"] == "RunResumed":
                check_schema(line["schema"])
            check_order(run, line)
            run.take(line)
        except KeyError as error:
            raise Untrue(number, f"{error.args[0]!r} is missing or unknown") from error
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Untrue(number, str(error)) from error
    return run


def check_first(line: Any) -> None:
    if not isinstance(line, dict) or line.get("event") != "RunStarted":
        raise NotAJournal(f"a journal begins with RunStarted, but line 1 is {str(line)[:60]}")
    check_schema(line.get("schema"))


def check_schema(schema: object) -> None:
    if schema != SCHEMA:
        raise NotAJournal(f"this program reads journals of schema {SCHEMA}, but this one has {schema!r}")


def verified(path: Path) -> dict[str, Any]:
    journal = Journal(path)
    run = folded(journal)
    return {
        "run": run.first["run"],
        "schema": run.first["schema"],
        "simulated": bool(run.first.get("simulated", False)),
        "lines": journal.lines,
        "chain": journal.chain.decode(),
        "torn_bytes": journal.torn_bytes,
        "has_ended": run.ended is not None,
        **figures(run),
        "not_checked": list(NOT_CHECKED),
    }


def text(result: dict[str, Any]) -> str:
    torn = f"; an incomplete last line of {result['torn_bytes']} bytes was dropped" if result["torn_bytes"] else ""
    simulated = ", simulated" if result["simulated"] else ""
    unfinished = "" if result["has_ended"] else ", the run has not ended"
    lines = [
        ("run", f"{result['run']}, schema {result['schema']}{simulated}"),
        ("chain", f"{result['lines']} lines, all valid{torn}; the last hash is {result['chain']}"),
        ("window", f"{result['window_seconds']!r} s{unfinished}"),
        ("score", f"{result['flops_per_second']!r} FLOPS"),
        ("95 % interval", repr(result["flops_per_second_interval"])),
        ("regulated", f"{result['regulated_flops_per_second']!r} FLOPS"),
        ("cumulative", f"{result['cumulative_flops_per_second']!r} FLOPS"),
        ("error", repr(result["error"])),
        ("held-out error", repr(result["held_out_error"])),
        ("mean error", repr(result["mean_error"])),
        ("quality", repr(result["quality"])),
        ("wasted", f"{result['wasted_flops']!r} operations"),
        ("busy time", repr(result["busy_share"])),
        ("valid", "yes" if result["valid"] else "no"),
        ("trials", f"{result['trials_finished']} finished, in rounds up to {result['rounds']}"),
        ("images", f"{result['training_images']} training, {result['validation_images']} validation"),
    ]
    lines += [
        (f"worker {worker}", f"{operations!r} operations in the window")
        for worker, operations in result["operations_per_worker"].items()
    ]
    lines += [("not checked", subject) for subject in result["not_checked"]]
    return "\n".join(f"{name:<14} {value}" for name, value in lines)


def main(arguments: list[str]) -> int:
    """Exit status: 0 valid, 1 a line cannot be true, 2 no journal or wrong arguments."""
    paths = [argument for argument in arguments if not argument.startswith("-")]
    flags = [argument for argument in arguments if argument.startswith("-")]
    if len(paths) != 1 or set(flags) - {"--json"}:
        print("usage: python verify_standalone.py JOURNAL [--json]", file=sys.stderr)
        return 2
    try:
        result = verified(Path(paths[0]))
    except (Untrue, NotAJournal) as error:
        line, why = (error.line, error.why) if isinstance(error, Untrue) else (None, str(error))
        if flags:
            print(json.dumps({"line": line, "why": why}))
        else:
            print(error if line is None else f"{paths[0]}: {error}", file=sys.stderr)
        return 2 if line is None else 1
    print(json.dumps(result, indent=2) if flags else text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
