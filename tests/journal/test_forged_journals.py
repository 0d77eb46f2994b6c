"""A journal that no run can write is refused with its line, despite a valid hash chain, and never ends in a traceback.

Every forgery is an edit of a journal of a real run (killed, resumed, a rank killed) with a new hash chain.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.score import curve, score
from aiperf.accounting.work_log import work_log
from aiperf.config import configure
from aiperf.drive.session import resumable
from aiperf.errors import AiperfError, JournalDamaged
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME, read
from aiperf.journal.run_folder import run_folder
from aiperf.journal.sealed_log import LONGEST_TEXT
from aiperf.report.gather import gather
from aiperf.report.sections import configuration, search, system, time_spent
from aiperf.report.sections import score as score_section
from aiperf.report.write import closing_lines
from searchers.propose import RULES
from tests.audit.random_runs import play, random_case
from tests.builders.forged_journal import Line, Place, body, changed, hash_chained, lines_of, places, write
from tools.verify_standalone import Untrue, verified

REAL = lines_of(Path(__file__).with_name("read_by_number.jsonl"))
"""Real run. The forgeries below name its lines by number."""
Forgery = Callable[[list[Line]], None]
GOLDEN = lines_of(Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl")
PRESET = {"name": "hpc_ai500_ic", "target_quality": 0.5, "exponent": 5}
PREDICTED = {
    **dict.fromkeys(("release", "source", "source_hash"), "x"), "format": 1, "nodes": [], "workers": 1,
    "is_extrapolated": False,
    "config": {}, "dataset": {}, "scores": [1.0, 2.0], "shares": {}, "score": 1.5, "interval": [1.0, 2.0],
}  # fmt: skip
WRONG: list[Any] = [None, True, 0, -1, 1e-300, 10**40, 10**6, 1e308, "", "x", [], {}]


def field(number: int, name: str, value: Any) -> Forgery:
    """Change a field of line `number`. `name` may be a path: 'interval.start'."""

    def forge(lines: list[Line]) -> None:
        *path, last = name.split(".")
        place = lines[number - 1]
        for step in path:
            place = place[step]
        place[last] = value(place[last]) if callable(value) else value

    return forge


def inserted(number: int, event: str, /, **fields: Any) -> Forgery:
    """Insert a line as line `number`, at the time of the line before."""

    def forge(lines: list[Line]) -> None:
        lines.insert(number - 1, {"event": event, "at": lines[number - 2]["at"], **fields})

    return forge


def copied(number: int, to: int) -> Forgery:
    """Insert a copy of a line as line `to`, at the time of the line before."""

    def forge(lines: list[Line]) -> None:
        lines.insert(to - 1, lines[number - 1] | {"at": lines[to - 2]["at"]})

    return forge


def without(number: int, name: str) -> Forgery:
    """Remove a field of a line."""
    return lambda lines: lines[number - 1].pop(name)


def first(**fields: Any) -> Forgery:
    """Change the first line and give it the hash of its configuration."""

    def forge(lines: list[Line]) -> None:
        lines[0].update(fields)
        lines[0]["config_hash"] = config_hash(lines[0]["config"])

    return forge


def configured(change: Callable[[dict[str, Any]], object]) -> Forgery:
    """Change the configuration together with its hash."""

    def forge(lines: list[Line]) -> None:
        change(lines[0]["config"])
        lines[0]["config_hash"] = config_hash(lines[0]["config"])

    return forge


def ended_early(lines: list[Line]) -> None:
    """Cut after 20 lines and mark the run as complete."""
    lines[20:] = [{"event": "RunEnded", "at": lines[19]["at"], "reason": "duration"}]


def swapped(lines: list[Line]) -> None:
    """Swap start and end of an interval."""
    interval = lines[12]["interval"]
    interval["start"], interval["end"] = interval["end"], interval["start"]


def resumed(lines: list[Line]) -> None:
    """Resume after the declared time."""
    lines.append(lines[54] | {"at": lines[-1]["at"], "down_seconds": 0.0})


def rolled_back(lines: list[Line]) -> None:
    """Resume with a rollback that has no hash."""
    lines[54].update(rolled_back_lines=3)


def no_window(lines: list[Line]) -> None:
    """End before the warm-up, in the first line and in its configuration."""
    lines[0]["duration_seconds"] = lines[0]["config"]["schedule"]["duration_seconds"] = 3.0
    lines[0]["config_hash"] = config_hash(lines[0]["config"])


FORGERIES: dict[str, tuple[int, Forgery]] = {
    # values outside their range
    "accuracy above 1": (12, field(12, "accuracy", 1.2)),
    "accuracy below 0": (12, field(12, "accuracy", -0.1)),
    "accuracy is no number": (12, field(12, "accuracy", float("nan"))),
    "infinite loss": (12, field(12, "validation_loss", float("inf"))),
    "infinite time": (97, field(97, "at", float("inf"))),
    "a time that is not one": (97, field(97, "at", 1e300)),
    "negative training images": (13, field(13, "interval.training_images", -512)),
    "negative validation images": (13, field(13, "interval.validation_images", -1)),
    "more images than the set has": (13, field(13, "interval.training_images", 513)),
    "more images over an epoch's lines": (88, field(88, "interval.training_images", 1)),
    "more validation images": (87, field(87, "validation_images", 129)),
    "images beyond all counting": (13, field(13, "interval.training_images", 10**30)),
    "half an image": (13, field(13, "interval.training_images", 0.5)),
    "busier than the clock": (12, field(12, "interval.busy_seconds", 10.0)),
    "busy for less than nothing": (12, field(12, "interval.busy_seconds", -1e-9)),
    "exchanged for longer": (12, field(12, "interval.communication_seconds", 10.0)),
    "validated for longer": (12, field(12, "interval.validation_seconds", 10.0)),
    "waited for less than nothing": (12, field(12, "interval.input_seconds", -1.0)),
    "stood still for longer": (12, field(12, "interval.checkpoint_seconds", 10.0)),
    "negative operations": (6, field(6, "forward_flops", -1)),
    "operations beyond all counting": (6, field(6, "backward_flops", 10**400)),
    "negative parameters": (6, field(6, "parameters", -5)),
    "a proposal of negative time": (6, field(6, "seconds", -1.0)),
    "a batch of nothing": (6, field(6, "batch_size", 0)),
    "a kernel of nothing": (6, field(6, "kernel_size", 0)),
    "a ceiling of nothing": (5, field(5, "batch_size", 0)),
    "a worker without ranks": (2, field(2, "ranks", 0)),
    "a worker of a huge number": (2, field(2, "worker", 2**40)),
    "negative memory": (2, field(2, "device_memory_bytes", -1)),
    "prepared on more ranks": (11, field(11, "ranks", 64)),
    "built in negative time": (11, field(11, "build_seconds", -1.0)),
    "round 0": (4, field(4, "round", 0)),
    "told above 1": (14, field(14, "reported_accuracy", 1.5)),
    "a clock that stepped forward by stepping back": (55, field(55, "clock_stepped_back_seconds", -1.0)),
    # time
    "time runs back": (14, field(14, "at", 4.0)),
    "before the beginning": (2, field(2, "at", -1.0)),
    "begins late": (1, field(1, "at", 3.0)),
    "an interval over the one before": (13, field(13, "interval.start", lambda start: start - 0.1)),
    "an interval ends after its line": (13, field(13, "interval.end", lambda end: end + 1.0)),
    "an interval runs back": (13, swapped),
    "a resume without downtime": (55, field(55, "down_seconds", 0.0)),
    "a resume of too much downtime": (55, field(55, "down_seconds", lambda down: down + 1.0)),
    "over before its time": (21, ended_early),
    # order of a run
    "begins twice": (5, copied(1, 5)),
    "goes on after the end": (98, copied(56, 98)),
    "works on after the end": (98, copied(96, 98)),
    "ends twice": (98, copied(97, 98)),
    "resumed after its time": (98, resumed),
    "resumed in an unknown schema": (55, field(55, "schema", 2)),
    "rolled back without a hash": (55, rolled_back),
    "an unknown schema": (1, field(1, "schema", 99)),
    # the first line
    "a configuration against its hash": (1, field(1, "config.seed", 5)),
    "a hash against its configuration": (1, field(1, "config_hash", "0" * 64)),
    "another seed than configured": (1, first(seed=5)),
    "longer than configured": (1, first(duration_seconds=155.0)),
    "less warm-up than configured": (1, first(warmup_seconds=0.0)),
    "another length in the configuration": (1, configured(lambda config: config["schedule"].update(duration_seconds=54.0))),
    "no window": (1, no_window),
    "no validation images": (1, field(1, "dataset.validation_images", 0)),
    "images in words": (1, field(1, "dataset.training_images", "512")),
    "a data set without images": (1, field(1, "dataset", {"name": "synthetic"})),
    "a date beyond all dates": (1, field(1, "started_unix", 1e300)),
    "a negative seed": (1, first(seed=-1)),
    # present workers
    "joins twice": (3, copied(2, 3)),
    "comes back under its number": (56, field(56, "worker", 0)),
    "an unknown worker is lost": (21, inserted(21, "WorkerLost", worker=7, cause="reported", reason="")),
    "an unknown worker measures": (5, field(5, "worker", 7)),
    "an unknown worker is given a trial": (7, field(7, "worker", 9)),
    "an unknown worker wants a proposal": (4, field(4, "worker", 9)),
    "another worker works": (13, field(13, "interval.worker", 5)),
    "work of a worker that is gone": (64, field(64, "interval.worker", 0)),
    # proposals
    "numbers are skipped": (16, field(16, "number", 30)),
    "a number once more": (16, field(16, "number", 0)),
    "a proposal that nobody asked for": (7, copied(6, 7)),
    "a rejection that nobody asked for": (21, inserted(21, "TrialRejected", number=0, by="check", reason="")),
    "asked for at another line": (4, field(4, "position", 1)),
    "made from another history": (6, field(6, "position", 1)),
    "made from another seed": (6, field(6, "seed", 1)),
    "its own parent": (17, field(17, "parent", 3)),
    "a parent that is younger": (17, field(17, "parent", 4)),
    "a parent of no number": (17, field(17, "parent", -1)),
    # trials, attempts, epochs
    "an unknown trial is started": (7, field(7, "trial", 55)),
    "started before it was proposed": (7, field(7, "trial", 1)),
    "two trials at once": (16, inserted(16, "TrialStarted", trial=2, attempt=1, worker=0, epoch=1, batch_size=12, round=1)),
    "another batch than proposed": (7, field(7, "batch_size", 63)),
    "an attempt is left out": (74, field(74, "attempt", 5)),
    "epochs are left out": (74, field(74, "epoch", 4)),
    "an epoch is left out": (13, field(13, "epoch", 3)),
    "an epoch once more": (13, field(13, "epoch", 1)),
    "progress in another epoch": (87, field(87, "epoch", 5)),
    "an epoch of an unknown trial": (13, field(13, "trial", 77)),
    "an epoch of another attempt": (13, field(13, "attempt", 2)),
    "progress of an unknown trial": (87, field(87, "trial", -9)),
    "prepared without being started": (11, field(11, "trial", 1)),
    "a batch that grows": (
        12,
        inserted(12, "BatchReduced", trial=0, attempt=1, from_batch_size=8, to_batch_size=64),
    ),
    "lost in another attempt": (73, field(73, "attempt", 2)),
    "better than ever measured": (14, field(14, "accuracy", 0.9)),
    "finished without being started": (14, field(14, "trial", 1)),
    "finished in another attempt": (14, field(14, "attempt", 2)),
    "finished twice": (15, copied(14, 15)),
    "an unknown trial fails": (21, inserted(21, "TrialFailed", trial=99, reason="")),
    "a finished trial fails": (21, inserted(21, "TrialFailed", trial=0, reason="")),
    "a checkpoint of nobody": (21, inserted(21, "CheckpointDropped", trial=99, cause="gone", reason="")),
    # no events at all
    "an unknown event": (21, inserted(21, "ScoreRaised", by=1e15)),
    "an unknown field": (14, lambda lines: lines[13].update(bonus=1)),
    "a field is missing": (14, without(14, "accuracy")),
    "words for a number": (14, field(14, "at", "soon")),
    "nothing for a number": (14, field(14, "at", None)),
}  # fmt: skip


def forged(forge: Forgery) -> list[Line]:
    lines = copy.deepcopy(REAL)
    forge(lines)
    return lines


def test_the_journal_that_is_forged_is_itself_whole(tmp_path: Path) -> None:
    folder = write(tmp_path, REAL)

    assert len(list(read(folder))) == len(REAL) == 97
    assert (folder / NAME).read_bytes().count(b"\n") == 97


@pytest.mark.parametrize(("line", "forge"), FORGERIES.values(), ids=FORGERIES)
def test_forged_line_is_refused_by_number_with_a_remedy(tmp_path: Path, line: int, forge: Forgery) -> None:
    folder = write(tmp_path, forged(forge))

    with pytest.raises(JournalDamaged) as refused:
        gather(read(folder))

    said = str(refused.value)
    if "reads journals of schema" in said:  # the journal of a later release is not damaged
        return
    assert f"journal damaged at line {line} of " in said
    assert ("resume_until=" in said) == (line > 1)
    if line > 1:
        assert len(list(read(folder, until=line - 1))) == line - 1


TWICE = {
    "in an end": b'{"event":"RunEnded","at":60.0,"reason":"a","at":60.0}',
    "in its name": b'{"event":"RunEnded","event":"RunEnded","at":60.0,"reason":"a"}',
    "in an object": b'{"event":"ImagesSkipped","at":60.0,"worker":0,"images":1,"files":{"0":"a","0":"a"}}',
    "by an escape": b'{"event":"RunEnded","at":60.0,"reason":"a","\\u0061t":60.0}',
}


DEFAULTS = ("regions", "missing_regions", "halves")
EPOCH = REAL[12] | {"regions": 0, "missing_regions": 0, "halves": None}
HALVES = {"even_correct": 1, "even_samples": 2, "odd_correct": 1, "odd_samples": 2}


def lacking(line: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != name}


def twice(number: int, *members: bytes) -> bytes:
    """Return a line with some of its members repeated."""
    return body(REAL[number - 1])[:-1] + b"".join(b"," + member for member in members) + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        *TWICE.values(),
        twice(13, b'"epoch":2'),
        twice(87, b'"busy_seconds":0.0'),
        body(lacking(REAL[86], "at"))[:-1] + b',"busy_seconds":0.0}',
        body(REAL[12] | {"interval": None})[:-1] + b',"accuracy":0.5' * 10 + b"}",
        body(EPOCH | {"halves": HALVES})[:-1] + b',"accuracy":0.5}',
        body(lacking(EPOCH, "halves"))[:-1] + b',"halves":{"even_samples":9,%b}' % body(HALVES)[1:],
        body(EPOCH | {"halves": None})[:-1] + b',"accuracy":0.5' * 4 + b"}",
        *(body(lacking(EPOCH, name))[:-1] + b',"accuracy":0.5}' for name in DEFAULTS),
    ],
    ids=[
        *TWICE,
        "in an epoch",
        "in an interval",
        "instead of the time",
        "instead of an interval",
        "beside halves",
        "in the halves",
        "instead of the halves",
        *(f"instead of a default: {name}" for name in DEFAULTS),
    ],
)
def test_a_member_named_twice_is_refused_by_both_readers(tmp_path: Path, raw: bytes) -> None:
    number = 87 if b'"Progress"' in raw else 13
    (tmp_path / NAME).write_bytes(hash_chained([*map(body, REAL[: number - 1]), raw]))

    with pytest.raises(
        JournalDamaged, match=f"line {number} of {number}: .*each member once. This line has '[a-z_0]+' "
    ):
        list(read(tmp_path))
    with pytest.raises(Untrue, match=f"line {number}: .*twice"):
        verified(tmp_path)


def test_a_line_of_many_members_is_read_in_linear_time(tmp_path: Path) -> None:
    """In quadratic time 200,000 names need more than ten minutes."""
    members = b",".join(b'"%d":"a"' % number for number in range(200_000))
    raw = b'{"event":"ImagesSkipped","at":60.0,"worker":0,"images":1,"files":{%b,"0":"a"}}' % members
    (tmp_path / NAME).write_bytes(hash_chained([*map(body, REAL[:20]), raw]))

    with pytest.raises(JournalDamaged, match=r"each member once\. This line has '0' 2 times"):
        list(read(tmp_path))


@pytest.mark.parametrize("letter", ["x", "ü", '"'])
def test_a_text_of_a_line_has_a_largest_length(tmp_path: Path, letter: str) -> None:
    ended = {"event": "RunEnded", "at": 60.0}
    longest = write(tmp_path / "longest", [*REAL[:20], ended | {"reason": letter * LONGEST_TEXT}])
    longer = write(tmp_path / "longer", [*REAL[:20], ended | {"reason": letter * (LONGEST_TEXT + 1)}])

    assert len(list(read(longest))) == 21
    with pytest.raises(JournalDamaged, match=f"a text has at most {LONGEST_TEXT} characters"):
        list(read(longer))


def skipped(lines: list[Line], *counts: tuple[int, tuple[str, ...]]) -> list[Line]:
    """Return the first lines and one line per report of corrupt images, with its number and names."""
    at = lines[-1]["at"]
    more = [
        {"event": "ImagesSkipped", "at": at, "worker": 0, "images": images, "files": dict.fromkeys(names, "cut")}
        for images, names in counts
    ]
    return [*lines, *more]


@pytest.mark.parametrize(
    ("counts", "refused"),
    [
        ([(2, ("a", "b")), (3, ("c",))], None),
        ([(3, ("a", "b"))], "has 3"),
        ([(2, ("a", "b")), (4, ("c",))], "has 4"),
        ([(1, ("a",)), (2, ("a",))], "has 'a'"),
        ([(1000, ())], "has 1000"),
    ],
    ids=["honest", "more than its files", "more than all files", "once more", "no files"],
)
def test_images_are_skipped_as_many_as_their_files(
    tmp_path: Path, counts: list[tuple[int, tuple[str, ...]]], refused: str | None
) -> None:
    folder = write(tmp_path, skipped(REAL[:20], *counts))

    if refused is None:
        assert len(list(read(folder))) == 22
    else:
        with pytest.raises(JournalDamaged, match=refused):
            list(read(folder))


@pytest.mark.parametrize("share", ["9" * 5, None, True, [1], float("nan"), 1e300, -0.5])
def test_a_share_of_memory_is_a_number(tmp_path: Path, share: object) -> None:
    """A text would be multiplied by the bytes of a worker's memory."""
    lines = lines_of(Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl")
    lines[0]["shape"]["memory_bytes"] = 2**53
    first_line = configured(lambda config: config["budget"].update(memory_share=share))
    first_line(lines)

    with pytest.raises(JournalDamaged, match=r"budget\.memory_share is|budget in the journal|no event of schema"):
        list(read(write(tmp_path, lines)))


RAW = {
    "no JSON": b'{"event":"RunEnded",}',
    "no text": b'{"event":"RunEnded","at":60.0,"reason":"\xff\xfe"}',
    "half a character": b'{"event":"RunEnded","at":60.0,"reason":"\\ud800"}',
    "not a number": b'{"event":"RunEnded","at":NaN,"reason":""}',
    "beyond all numbers": b'{"event":"RunEnded","at":1e999,"reason":""}',
    "too deep": b'{"event":"WorkerJoined","machine":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    "a list": b'["RunEnded"]}',
    "nothing": b"{}",
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_a_sealed_line_that_is_no_event_is_refused_by_its_number(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / NAME).write_bytes(hash_chained([*map(body, REAL[:20]), raw]))

    with pytest.raises(JournalDamaged, match=r"journal damaged at line 21 of 21: .*resume_until=20"):
        work_log(read(tmp_path))


@pytest.mark.parametrize(
    ("line", "forge"),
    [
        (1, configured(lambda config: config.pop("space"))),
        (17, field(17, "morphs", [{"kind": "explode"}])),
        (17, field(17, "pruned", [{"nonsense": 1}])),
    ],
    ids=["no space", "a morph that there is not", "a point that is none"],
)  # fmt: skip
def test_value_read_only_by_a_resume_is_refused_with_its_line(tmp_path: Path, line: int, forge: Forgery) -> None:
    lines = forged(forge)
    lines[0]["proposal_rules"] = RULES
    folder = write(tmp_path / "run", lines[:-1])

    with pytest.raises(JournalDamaged, match=f"journal damaged at line {line} of 96: the event cannot be applied"):
        resumable(configure([f"resume={folder}"]))
    work_log(read(folder))  # the score does not depend on it


_NUMBERS = [0, -1, 1, 2, 3, 2**31, 2**63, 10**30, -0.0, 0.5, 1e-300, 1e12, 1e308, -1e308]
ODD = st.sampled_from([None, True, False, *_NUMBERS, "", "x", "0", [], [1], {}, {"a": 1}])


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_any_changed_value_is_reported_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = copy.deepcopy(REAL)
    for _ in range(data.draw(st.integers(1, 2))):
        place: Any = data.draw(st.sampled_from(lines))
        while True:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = copy.deepcopy(data.draw(ODD))  # the next change may be inside it, and every example draws it
            break
    if isinstance(lines[0].get("config"), dict) and data.draw(st.booleans()):
        with suppress(TypeError, ValueError, OverflowError):
            lines[0]["config_hash"] = config_hash(lines[0]["config"])
    folder = write(tmp_path_factory.mktemp("run"), lines)

    try:
        report = gather(read(folder))
    except AiperfError as refused:
        assert "\n" not in str(refused)
    else:
        assert closing_lines(report)
        for table in (
            score_section.result,
            time_spent.time_table,
            search.trial_table,
            system.systems,
            configuration.run,
            configuration.option_table,
        ):
            assert table(report)
        kept = work_log(read(folder))
        assert json.dumps(score(kept).flops_per_second) and curve(kept)


@pytest.mark.parametrize("seed", range(20))
def test_no_honest_journal_of_a_faulty_run_is_refused(seed: int) -> None:
    # play() reads the journal after every driver restart and at the end, and fails if a line is refused
    assert play(random_case(10_000 + seed)).journal


def wrong_first_lines() -> Iterator[tuple[Place, Any]]:
    """Yield each place of a real first line with each wrong value."""
    for place in places(GOLDEN[0]):
        yield from ((place, wrong) for wrong in WRONG)


@pytest.mark.slow
def test_each_wrong_leaf_of_a_first_line_is_refused_or_legal(tmp_path: Path) -> None:
    for place, wrong in wrong_first_lines():
        folder = write(tmp_path, [changed(GOLDEN[0], place, wrong)])
        with suppress(AiperfError):
            closing_lines(gather(read(folder)))


GROUP = {
    "limits without a value": {"limits": None},
    "a trainer without a value": {"trainer": None},
    "limits in words": {"limits": {"attempts": "two"}},
    "a benchmark that is a word": {"benchmark": "hpc_ai500_ic"},
    "a benchmark without a name": {"benchmark": {}},
    "a target of 0": {"benchmark": PRESET | {"target_quality": 0}},
    "a negative target": {"benchmark": PRESET | {"target_quality": -1.0}},
    "a target in words": {"benchmark": PRESET | {"target_quality": "x"}},
    "a tiny target": {"benchmark": PRESET | {"target_quality": 1e-300}},
    "no target": {"benchmark": PRESET | {"target_quality": None}},
    "an exponent of a million": {"benchmark": PRESET | {"exponent": 10**6}},
    "a memory in words": {"budget": {"memory_bytes": "x"}},
    "40 digits": {"note": [{"size_bytes": 10**39}]},
}


@pytest.mark.parametrize("group", GROUP.values(), ids=GROUP)
def test_an_illegal_group_of_options_is_refused_on_reading(tmp_path: Path, group: dict[str, Any]) -> None:
    lines = forged(configured(lambda config: config.update(group)))

    with pytest.raises(
        JournalDamaged, match=r"journal damaged at line 1 of \d+: no run can write it: .*fit|configuration"
    ):
        list(read(write(tmp_path, lines)))


def test_the_smallest_target_gives_finite_figures(tmp_path: Path) -> None:
    smallest = {"benchmark": PRESET | {"target_quality": 0.01, "exponent": 100}}
    report = gather(read(write(tmp_path, forged(configured(lambda config: config.update(smallest))))))

    assert report.fixed_network is not None and isfinite(report.fixed_network.valid_flops_per_second or 0.0)


def test_a_prediction_without_a_field_is_refused_on_reading(tmp_path: Path) -> None:
    for name in PREDICTED:
        less = {key: value for key, value in PREDICTED.items() if key != name}
        line = {"event": "ScorePredicted", "at": 0.0, "prediction": less}

        with pytest.raises(JournalDamaged, match=f"line 2 of .*{name}"):
            list(read(write(tmp_path, [REAL[0], line])))


def test_forged_run_is_found_by_name_and_refused_on_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiperf.__main__ import main

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs" / "forged", forged(FORGERIES["its own parent"][1]))

    status = main(["report", "forged"])

    assert status == 2
    assert run_folder("forged") == Path("runs/forged")
    said = capsys.readouterr().err
    assert said.startswith(
        "aiperf: journal damaged at line 17 of 97: no run can write it: a parent must be proposed before"
    )


@pytest.mark.parametrize("name", [{}, [], None, 1, "Nothing"], ids=str)
def test_a_line_of_another_kind_is_refused_in_words(tmp_path: Path, name: object) -> None:
    (tmp_path / NAME).write_bytes(hash_chained([*map(body, REAL[:12]), body(REAL[12] | {"event": name})]))

    with pytest.raises(JournalDamaged, match="line 13 of 13: it is no event of schema"):
        list(read(tmp_path))
