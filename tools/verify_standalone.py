#!/usr/bin/env python3
"""A second implementation of a journal's chain check and score, in one file: Python 3.9 or later, its standard library alone.

    python verify_standalone.py JOURNAL [--json]

It was written from the words of docs/events.md ("The line and its hash") and docs/benchmark.md ("The arithmetic"), shares no
code with AIPerf, and agrees with it to the last digit. Copy it anywhere. Exit status: 0, the journal is whole and these are
its figures; 1, a line of it cannot be true; 2, there is nothing to judge (no file, no journal, a schema not known here).

It takes each trial's operation counts, fingerprints and accuracies as they stand, and says so: that they are those of the
networks, and that proposals follow from seed and history, is what `python -m aiperf verify` shows.
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

SCHEMAS = (1, 2, 3, 4)
NOT_CHECKED = (
    "operation counts, fingerprints and proposals, which `python -m aiperf verify` works out again",
    "that accuracies were measured and work was done",
    "who wrote the journal: a chain is no signature",
)
LARGEST_COUNT = 2**53
TRIALS_A_BATCH = 4
TAIL = b',"chain":"'
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}


class NotAJournal(Exception):
    """There is nothing to judge, and why."""


class Untrue(Exception):
    """A line cannot be true: which one, and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


# ---- lines and their chain


def members(pairs: list[tuple[str, Any]]) -> Line:
    """An object, in which each name stands once: of two equal names readers take either."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
    return found


def no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def parsed(body: bytes) -> Any:
    """A line's own JSON."""
    return json.loads(body.decode("utf-8"), object_pairs_hook=members, parse_constant=no_constant)


class Journal:
    """The lines of a file, each held to the chain; afterwards what was read of it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "journal.jsonl" if path.is_dir() else path
        self.lines = 0
        self.chain = b"0" * 64
        self.torn_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Gives (line number, body) of each line, the body without its chain.

        Raises:
            NotAJournal: there is no file, or it is none.
            Untrue: a line does not follow from the one before it.
        """
        try:
            with self.path.open("rb") as file:
                head = file.read(16)
                self._refuse_others(head)
                file.seek(0)
                for line in file:
                    if not line.endswith(b"\n"):
                        self.torn_bytes = len(line)
                        break
                    yield self.lines + 1, self._body(line)
        except OSError as error:
            raise NotAJournal(f"'{self.path}' cannot be read ({error.strerror})") from error
        if not self.lines:
            raise NotAJournal(f"'{self.path}' holds no whole line")

    def _refuse_others(self, head: bytes) -> None:
        for begin, name in COMPRESSED.items():
            if head.startswith(begin):
                raise NotAJournal(f"'{self.path}' is compressed ({name}); unpack it first")
        if head and not head.startswith(b"{"):
            bom = (
                "; it begins with a byte order mark, which an editor added" if head.startswith(b"\xef\xbb\xbf") else ""
            )
            raise NotAJournal(f"a journal is lines of JSON objects; '{self.path}' begins with {head[:8]!r}{bom}")

    def _body(self, line: bytes) -> bytes:
        number = self.lines + 1
        begin = len(line) - 64 - len(TAIL) - 3
        if begin < 1 or line[begin : begin + len(TAIL)] != TAIL or line[-3:] != b'"}\n':
            if line.endswith(b"\r\n"):
                raise Untrue(
                    number, "it ends with \\r\\n; the file was carried over as text, take it as it was written"
                )
            if number == 1:
                raise NotAJournal(f"a journal's lines end with their chain; line 1 of '{self.path}' has none")
            raise Untrue(number, "it has no chain at its end")
        body = line[:begin] + b"}"
        follows = hashlib.sha256(self.chain + body).hexdigest().encode()
        if follows != line[begin + len(TAIL) : -3]:
            raise Untrue(number, "it does not follow from the line before it: one of the two was changed")
        self.chain = follows
        self.lines = number
        return body


# ---- values


def whole(line: Line, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    """A whole number of a line."""
    value = line[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is a whole number from {least} to {most}; found {value!r}")
    return value


def real(line: Line, name: str, least: float = 0.0, most: float = 1e12) -> float:
    """A double of a line."""
    value = line[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is a number from {least!r} to {most!r}; found {value!r}")
    return float(value)


def canonical(value: Any) -> str:
    """Canonical JSON: members in the order of their names, no spaces, each number by the fewest digits that read back as it."""
    if isinstance(value, dict):
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(one) for one in value) + "]"
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, float) or "e" not in text:
        return text
    digits, _, exponent = text.partition("e")
    if (
        int(exponent) == -5
    ):  # Python writes 5e-05 where the journal has 0.00005; smaller ones both write with an exponent
        return f"{'-' * (value < 0)}0.0000{digits.lstrip('-').replace('.', '')}"
    return f"{digits}e{int(exponent)}"


def check_configuration(first: Line) -> None:
    """The first line's configuration has its hash, and says what the line says.

    Raises:
        ValueError: it does not.
    """
    found = hashlib.sha256(canonical(first["config"]).encode()).hexdigest()
    if first["config_hash"] != found:
        raise ValueError(f"config_hash is {first['config_hash']}, that of its configuration is {found}")
    schedule = first["config"].get("schedule") or {}
    for name, configured in (
        ("seed", first["config"].get("seed")),
        ("duration_seconds", schedule.get("duration_seconds")),
        ("warmup_seconds", schedule.get("warmup_seconds")),
    ):
        if configured is not None and configured != first[name]:
            raise ValueError(f"{name} is {first[name]!r}, its configuration says {configured!r}")


# ---- what the lines add up to


class Rows:
    """The intervals of work, as columns."""

    def __init__(self) -> None:
        self.worker, self.trial = array("q"), array("q")
        self.start, self.end = array("d"), array("d")
        self.counted = array("d")  # operations: exact, then rounded to a double
        self.busy = array("d")  # seconds · ranks, rounded
        self.wasted = bytearray()

    def __len__(self) -> int:
        return len(self.wasted)

    def share(self, row: int, start: float, end: float) -> float:
        """The part of an interval that lies inside: each of two subtractions and a division rounded."""
        a, b = self.start[row], self.end[row]
        if b > a:
            return max(0.0, min(b, end) - max(a, start)) / (b - a)
        return 1.0 if start < b <= end else 0.0


class Attempt:
    """The attempt at a trial that was begun last, and the rows of its trial by epoch."""

    def __init__(self, number: int, worker: int, ranks: int, epoch: int, rows: dict[int, list[int]]) -> None:
        self.number, self.worker, self.ranks, self.epoch = number, worker, ranks, epoch
        self.begun: set[int] = set()  # epochs that this attempt has told work of
        self.rows = rows


class Run:
    """A fold over the lines: `take` each in its order."""

    def __init__(self) -> None:
        self.first: Line = {}
        self.at = 0.0
        self.ended: float | None = None
        self.costs: dict[int, tuple[int, int]] = {}  # of a trial: operations of a training and of a validation image
        self.rounds: dict[int, int] = {}
        self.attempts: dict[int, Attempt] = {}  # of trials that are not settled
        self.present: dict[int, tuple[float, int]] = {}  # of a worker: when it joined, and its ranks
        self.changes: list[tuple[float, int]] = []  # in the number of accelerators that are there
        self.stays: dict[int, tuple[float, float]] = {}
        self.down = 0.0
        self.rows = Rows()
        self.evaluations: list[tuple[float, float]] = []
        self.finished, self.round = 0, 0
        self.training_images = self.validation_images = 0

    def take(self, line: Line) -> None:
        """Raises ValueError, KeyError or TypeError where it cannot be taken in."""
        kind = line["event"]
        taken = getattr(self, "_" + kind, None)
        if taken is not None:
            taken(line)
        self.at = line["at"]

    def _RunStarted(self, line: Line) -> None:
        real(line, "duration_seconds")
        real(line, "warmup_seconds", 0.0, line["duration_seconds"])
        whole(line["dataset"], "validation_images", 1)
        whole(line["dataset"], "training_images", 1)
        self.first = line

    def _RunResumed(self, line: Line) -> None:
        self.ended = None
        self.down += real(line, "down_seconds")
        for worker in list(self.present):
            self._gone(worker, self.at)

    def _RunEnded(self, line: Line) -> None:
        self.ended = line["at"]

    def _WorkerJoined(self, line: Line) -> None:
        worker = whole(line, "worker")
        if worker in self.stays or worker in self.present:
            raise ValueError(f"a worker's number is its own for ever; {worker} joins once more")
        self.present[worker] = (line["at"], whole(line, "ranks", 1))

    def _WorkerLost(self, line: Line) -> None:
        self._gone(whole(line, "worker"), line["at"])

    def _gone(self, worker: int, at: float) -> None:
        joined, ranks = self.present.pop(worker)
        self.stays[worker] = (joined, at)
        self.changes += [(joined, ranks), (at, -ranks)]

    def _ProposalRequested(self, line: Line) -> None:
        self.rounds[whole(line, "number")] = whole(line, "round", 1)

    def _TrialProposed(self, line: Line) -> None:
        number = whole(line, "number")
        training = whole(line, "forward_flops") + whole(line, "backward_flops")
        self.costs[number] = (training, whole(line, "validation_flops"))

    def _TrialStarted(self, line: Line) -> None:
        trial, worker = whole(line, "trial"), whole(line, "worker")
        before = self.attempts.get(trial)
        _, ranks = self.present[worker]
        rows = {} if before is None else before.rows
        self.attempts[trial] = Attempt(whole(line, "attempt", 1), worker, ranks, whole(line, "epoch", 1), rows)
        if line.get("round") is not None:
            self.rounds[trial] = whole(line, "round", 1)

    def _TrialPrepared(self, line: Line) -> None:
        self.attempts[line["trial"]].ranks = whole(line, "ranks", 1)

    def _BatchReduced(self, line: Line) -> None:
        attempt = self.attempts[line["trial"]]
        self._waste(attempt, attempt.epoch)

    def _Progress(self, line: Line) -> None:
        self._work(line, line)

    def _EpochFinished(self, line: Line) -> None:
        if line.get("interval") is not None:
            self._work(line, line["interval"])
        self.attempts[line["trial"]].epoch = whole(line, "epoch", 1) + 1
        self.evaluations.append((line["at"], real(line, "accuracy", 0.0, 1.0)))

    def _TrialFinished(self, line: Line) -> None:
        del self.attempts[line["trial"]]
        self.finished += 1
        self.round = max(self.round, self.rounds[line["trial"]])

    def _TrialFailed(self, line: Line) -> None:
        self.attempts.pop(line["trial"], None)

    def _work(self, line: Line, work: Line) -> None:
        trial, epoch = line["trial"], whole(line, "epoch", 1)
        attempt = self.attempts[trial]
        if attempt.number > 1 and epoch not in attempt.begun:
            self._waste(attempt, epoch)
        attempt.begun.add(epoch)
        start, end = real(work, "start"), real(work, "end")
        if not start <= end <= line["at"]:
            raise ValueError(
                "an interval ends by its line; found {!r} to {!r} s at {!r} s".format(start, end, line["at"])
            )
        training, validation = whole(work, "training_images"), whole(work, "validation_images")
        a_training_image, a_validation_image = self.costs[trial]
        rows = self.rows
        attempt.rows.setdefault(epoch, []).append(len(rows))
        rows.worker.append(whole(work, "worker"))
        rows.trial.append(trial)
        rows.start.append(start)
        rows.end.append(end)
        rows.counted.append(float(training * a_training_image + validation * a_validation_image))
        rows.busy.append(real(work, "busy_seconds") * attempt.ranks)
        rows.wasted.append(0)
        self.training_images += training
        self.validation_images += validation

    def _waste(self, attempt: Attempt, epoch: int) -> None:
        """An epoch is begun again: all that was done of it in earlier lines."""
        for row in attempt.rows.pop(epoch, ()):
            self.rows.wasted[row] = 1


def exactly(numbers: Iterable[float]) -> float:
    """An exact sum, rounded once: by whole numbers, one for each denominator (a power of two)."""
    sums: dict[int, int] = {}
    for number in numbers:
        above, below = number.as_integer_ratio()
        sums[below] = sums.get(below, 0) + above
    if not sums:
        return 0.0
    largest = max(sums)
    return sum(above * (largest // below) for below, above in sums.items()) / largest


def figures(run: Run) -> dict[str, Any]:
    """The figures by their formulas; None stands for what is not defined."""
    first, rows = run.first, run.rows
    start = float(first["warmup_seconds"])
    end = min(run.at if run.ended is None else run.ended, float(first["duration_seconds"]))
    seconds = max(0.0, end - start)
    good = [row for row in range(len(rows)) if not rows.wasted[row]]
    counted = [rows.counted[row] * rows.share(row, start, end) for row in good]
    score = exactly(counted) / seconds if seconds > 0 else None
    best = max((accuracy for at, accuracy in run.evaluations if at <= end), default=None)
    error = None if best is None else max(1.0 - best, 1.0 / (2 * first["dataset"]["validation_images"]))
    busy = exactly(rows.busy[row] * rows.share(row, start, end) for row in range(len(rows)))
    whole_time = most_accelerators(run) * seconds
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
        "error": error,
        "window_seconds": seconds,
        "trials_finished": run.finished,
        "rounds": run.round,
        "busy_share": busy / whole_time if whole_time > 0 else None,
        "wasted_flops": exactly(rows.counted[row] for row in range(len(rows)) if rows.wasted[row]),
        "valid": bool(score and error is not None and run.finished and run.ended is not None),
        "operations_per_worker": {worker: exactly(each) for worker, each in sorted(workers.items())},
        "training_images": run.training_images,
        "validation_images": run.validation_images,
    }


def most_accelerators(run: Run) -> int:
    """The most that were there at once; where one leaves as another comes, the leaving is first."""
    there = most = 0
    for _, change in sorted(run.changes + list(run.present.values())):
        there += change
        most = max(most, there)
    return most


def interval(run: Run, counted: list[float], good: list[int], start: float, seconds: float) -> list[float] | None:
    """The 95 % interval by its method 2, good to nine digits; None where there is too little of a sample."""
    end, rows = start + seconds, run.rows
    if seconds <= 0 or run.down > 0 or not any(counted):
        return None
    stretches: dict[tuple[int, int], tuple[float, float]] = {}
    for row in range(len(rows)):
        if rows.end[row] > start and rows.start[row] < end:
            key = (rows.worker[row], rows.trial[row])
            a, b = stretches.get(key, (math.inf, -math.inf))
            stretches[key] = (min(a, rows.start[row]), max(b, rows.end[row]))
    lengths = [b - a for a, b in stretches.values()]
    squares = exactly(length * length for length in lengths)
    batches = min(10, math.floor(seconds * exactly(lengths) / squares / TRIALS_A_BATCH)) if squares else 0
    stays = dict(run.stays)
    stays.update((worker, (joined, math.inf)) for worker, (joined, _) in run.present.items())
    there = {worker: stay for worker, stay in stays.items() if stay[0] < end and stay[1] > start}
    if batches >= 4:
        edges = [start + seconds * index / batches for index in range(batches + 1)]
        sample = [
            math.fsum(rows.counted[row] * rows.share(row, a, b) for row in good) * batches / seconds
            for a, b in zip(edges, edges[1:])
        ]
    elif len(there) >= 16 and all(joined <= start and left >= end for joined, left in there.values()):
        of: dict[int, list[float]] = {worker: [] for worker in there}
        for row, operations in zip(good, counted):
            if rows.worker[row] in of:
                of[rows.worker[row]].append(operations)
        sample = [math.fsum(each) * len(there) / seconds for each in of.values()]
    else:
        return None
    size, mean, slope, freedom = len(sample), math.fsum(sample) / len(sample), 0.0, len(sample) - 1
    moments = [index - (size - 1) / 2 for index in range(size)]
    if batches >= 4:
        freedom = size - 2
        slope = math.fsum(m * one for m, one in zip(moments, sample)) / math.fsum(m * m for m in moments)
    squared = math.fsum((one - mean - slope * m) ** 2 for m, one in zip(moments, sample))
    half = students_t(freedom) * math.sqrt(squared / freedom / size)
    return [max(0.0, mean - half), mean + half]


def students_t(freedom: int) -> float:
    """Below which 97.5 % of Student's t lies, by halving; the distribution is Abramowitz and Stegun's 26.7.3 and 26.7.4."""
    low, high = 0.0, 13.0
    while high - low > 1e-13:
        t = (low + high) / 2
        angle = math.atan(t / math.sqrt(freedom))
        term, total = (math.cos(angle), 0.0) if freedom % 2 else (1.0, 0.0)
        for index in range(1 if freedom % 2 else 0, freedom - 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (index + 1) / (index + 2)
        inside = (angle + math.sin(angle) * total) * 2 / math.pi if freedom % 2 else math.sin(angle) * total
        low, high = (t, high) if inside < 0.95 else (low, t)
    return low


# ---- the program


def check_order(run: Run, line: Line) -> None:
    """Raises ValueError where a line cannot stand after those of a run."""
    kind, at = line["event"], real(line, "at")
    if at < run.at:
        raise ValueError(f"time never runs back; after {run.at!r} s follows {at!r} s")
    if (kind == "RunStarted") == bool(run.first):
        raise ValueError(f"a run begins once, in its first line; found {kind}")
    if run.ended is not None and kind != "RunResumed":
        raise ValueError(f"nothing but a resume follows the end of a run; found {kind}")


def folded(lines: Iterable[tuple[int, bytes]]) -> Run:
    """The run of numbered lines (number, body).

    Raises:
        NotAJournal: its first line is no run's, or of a schema that this program does not know.
        Untrue: a line cannot be taken in.
    """
    run = Run()
    for number, body in lines:
        try:
            line = parsed(body)
            if number == 1:
                check_first(line)
                check_configuration(line)
            elif line["event"] == "RunResumed":
                check_schema(line.get("schema", 1))
            check_order(run, line)
            run.take(line)
        except KeyError as error:
            raise Untrue(number, f"it names {error.args[0]!r}, which is not there") from error
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Untrue(number, str(error)) from error
    return run


def check_first(line: Any) -> None:
    if not isinstance(line, dict) or line.get("event") != "RunStarted":
        raise NotAJournal(f"a journal begins with RunStarted; line 1 is {str(line)[:60]}")
    check_schema(line.get("schema"))


def check_schema(schema: object) -> None:
    if schema not in SCHEMAS:
        raise NotAJournal(f"this program reads schemas {SCHEMAS[0]} to {SCHEMAS[-1]}; found {schema!r}")


def verified(path: Path) -> dict[str, Any]:
    """What a journal says of itself and adds up to."""
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


def text(found: dict[str, Any]) -> str:
    """For a reader; numbers as they are, to the last digit."""
    torn = "; a torn last line of {} bytes was left out".format(found["torn_bytes"]) if found["torn_bytes"] else ""
    lines = [
        ("run", "{}, schema {}{}".format(found["run"], found["schema"], ", simulated" if found["simulated"] else "")),
        ("chain", "{} lines, all whole{}; the last chain is {}".format(found["lines"], torn, found["chain"])),
        ("window", "{!r} s{}".format(found["window_seconds"], "" if found["has_ended"] else ", the run has not ended")),
        ("score", "{!r} FLOPS".format(found["flops_per_second"])),
        ("95 % interval", repr(found["flops_per_second_interval"])),
        ("regulated", "{!r} FLOPS".format(found["regulated_flops_per_second"])),
        ("cumulative", "{!r} FLOPS".format(found["cumulative_flops_per_second"])),
        ("error", repr(found["error"])),
        ("wasted", "{!r} operations".format(found["wasted_flops"])),
        ("busy time", repr(found["busy_share"])),
        ("valid", "yes" if found["valid"] else "no"),
        ("trials", "{} finished, in rounds up to {}".format(found["trials_finished"], found["rounds"])),
        ("images", "{} training, {} validation".format(found["training_images"], found["validation_images"])),
    ]
    lines += [
        (f"worker {worker}", f"{operations!r} operations in the window")
        for worker, operations in found["operations_per_worker"].items()
    ]
    lines += [("not checked", what) for what in found["not_checked"]]
    return "\n".join(f"{name:<14} {value}" for name, value in lines)


def main(words: list[str]) -> int:
    """Gives the exit status."""
    paths = [word for word in words if not word.startswith("-")]
    flags = [word for word in words if word.startswith("-")]
    if len(paths) != 1 or set(flags) - {"--json"}:
        print("usage: python verify_standalone.py JOURNAL [--json]", file=sys.stderr)
        return 2
    try:
        found = verified(Path(paths[0]))
    except Untrue as error:
        said = {"line": error.line, "why": error.why}
        print(json.dumps(said) if flags else f"{paths[0]}: {error}", file=sys.stdout if flags else sys.stderr)
        return 1
    except NotAJournal as error:
        print(
            json.dumps({"line": None, "why": str(error)}) if flags else error, file=sys.stdout if flags else sys.stderr
        )
        return 2
    print(json.dumps(found, indent=2) if flags else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
