"""Tests of the written report: self-contained page, facts, figures, and closing lines."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from aiperf.config import as_plain, configure
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.journal.journal import Journal
from aiperf.journal.options import flat_options
from aiperf.page import html
from aiperf.page.palette import COLOURS
from aiperf.page.terminal import folded
from aiperf.ranking.breaches import REAL_MACHINE
from aiperf.ranking.division import division
from aiperf.report.gather import gather
from aiperf.report.phrases import broken_rules
from aiperf.report.write import Paths, closing_lines, report_of, write
from aiperf.system.log import Log, Session
from aiperf.system.log import path as telemetry_of
from aiperf.system.sampler import Device, DeviceSample
from tests.builders.report_journal import Shape, invented

PROJECT = Path(__file__).parents[2]
SMALL = invented(Shape(duration=60.0, warmup=10.0))


class Parsed(HTMLParser):
    """Tags in the order they open, text, and what was left open or closed out of turn."""

    VOID = frozenset({"meta", "link", "img", "br", "hr", "use", "path", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    folder = tmp_path_factory.mktemp("run")
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(SMALL)
    return write(report_of(folder), folder)


@pytest.fixture(scope="module")
def page(written: Paths) -> str:
    return written.page.read_text("utf-8")


def test_the_page_is_well_formed_and_no_name_in_it_stands_twice(page: str) -> None:
    parsed = Parsed(page)

    assert parsed.wrong == [] == parsed.open
    names = Counter(attributes["id"] for _, attributes in parsed.tags if "id" in attributes)
    assert [name for name, count in names.items() if count > 1] == []


def test_what_the_page_links_to_is_in_it(page: str) -> None:
    parsed = Parsed(page)

    names = {attributes.get("id") for _, attributes in parsed.tags}
    links = {value for _, attributes in parsed.tags for key in ("href", "xlink:href") if (value := attributes.get(key))}
    assert links
    docs = {link for link in links if link.startswith(f"{html.DOCS}/")}
    assert docs and all((PROJECT / "docs" / link.removeprefix(f"{html.DOCS}/")).is_file() for link in docs)
    address = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
    assert address.replace("/tree/", "/blob/") == html.DOCS
    assert {link for link in links - docs if not link.startswith("data:")} <= {f"#{name}" for name in names}
    assert set(re.findall(r"url\((#[^)]*)\)", page)) <= {f"#{name}" for name in names}


def test_every_picture_has_words_and_every_table_a_caption(page: str) -> None:
    parsed = Parsed(page)

    assert all(a.get("alt") for tag, a in parsed.tags if tag == "img")
    roots = [a for tag, a in parsed.tags if tag == "svg"]
    assert len(roots) == 7
    assert all(a.get("role") == "img" and a.get("aria-label") for a in roots)
    tags = Counter(tag for tag, _ in parsed.tags)
    assert tags["table"] == tags["caption"] == tags["thead"]
    assert tags["h1"] == 1


def test_figures_in_the_page_follow_its_light_and_dark_colours(page: str) -> None:
    drawn = re.findall(r'<svg role="img".*?</svg>', page, re.S)

    assert len(drawn) == 7
    for one in drawn:
        assert "var(--muted)" in one
        assert [colour.role for colour in COLOURS if colour.light in one.lower()] == []


def test_valid_ranked_and_compared_with_stand_at_the_score(page: str) -> None:
    headline = page[page.index('class="headline"') : page.index('class="others"')]

    assert "valid · outside the ranking · compare with runs of " in headline


def test_a_machine_without_accelerators_has_none_on_its_page(page: str) -> None:
    shown = page[page.index("<main") : page.index('id="table-configuration"')]

    assert re.findall(r">[^<]*accelerators?\b[^<]*<", shown, re.IGNORECASE) == []
    assert "Process time" in shown


def test_score_and_broken_rules_are_at_the_top_of_the_page(page: str) -> None:
    text = " ".join(" ".join(Parsed(page).text).split())

    report = gather(SMALL)
    assert report.score.flops_per_second is not None
    assert f"{report.score.flops_per_second / 1e9:.1f} GFLOPS" in text
    assert "Outside the ranking" in text
    assert "data set 'digits' (name digits, training_images 1437" in text
    assert "to fix it: dataset=imagenet" in text
    assert "were not measured" in text


def test_report_json_has_every_trial_and_the_score(written: Paths) -> None:
    facts = json.loads(written.facts.read_text())

    assert len(facts["trials"]) == len(gather(SMALL).trials)
    assert set(facts["score"]) >= {"flops_per_second", "flops_per_second_interval", "error", "busy_share"}
    assert "warnings" in facts
    assert facts["breaches"]


def test_figures_are_written_as_svg_png_and_pdf(written: Paths) -> None:
    names = {path.name for path in written.plots}

    assert names >= {
        f"{name}.{suffix}"
        for name in ("score", "error", "workers", "operations", "tree")
        for suffix in ("svg", "png", "pdf")
    }
    assert "architecture.svg" in names
    for path in written.plots:
        if path.suffix == ".svg":
            assert ElementTree.fromstring(path.read_text("utf-8")).tag.endswith("svg")
        else:
            assert path.read_bytes().startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}[path.suffix])


def test_the_same_report_gives_the_same_bytes(written: Paths, tmp_path: Path) -> None:
    again = write(gather(SMALL), tmp_path)

    assert again.page.read_bytes() == written.page.read_bytes()
    assert again.facts.read_bytes() == written.facts.read_bytes()
    assert [path.read_bytes() for path in again.plots] == [path.read_bytes() for path in written.plots]


def test_report_and_score_survive_a_damaged_telemetry_line(written: Paths, tmp_path: Path) -> None:
    shutil.copy(written.page.parent / "journal.jsonl", tmp_path)
    (tmp_path / "telemetry").mkdir()
    (tmp_path / "telemetry" / "0.jsonl").write_bytes(b"\x00\xff\n")

    report = report_of(tmp_path)

    assert report.score == gather(SMALL).score
    assert [warning.text for warning in report.warnings if "line 1 of telemetry/0.jsonl" in warning.text]
    assert any("were not measured" in warning.text for warning in report.warnings)
    assert "telemetry/0.jsonl" in write(report, tmp_path).page.read_text("utf-8")


@pytest.mark.parametrize(("until", "is_warned_of"), [(5.0, True), (59.0, False), (None, True)])
def test_a_recorder_that_died_under_its_worker_is_a_warning(
    tmp_path: Path, until: float | None, is_warned_of: bool
) -> None:
    run = invented(Shape(workers=2, duration=120.0, warmup=10.0))
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(run)
    for worker, last in ((0, 120.0), (1, 120.0 if until == 59.0 else until)):
        if last is None:
            continue
        log = Log(telemetry_of(tmp_path, worker))
        host = Device(id="host", kind="host")
        session = Session(host="n", worker=worker, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(host,))
        log.begin(session)
        log.append(0.0, 0.0, [DeviceSample(device="host", utilisation=0.5)])
        log.append(last, last, [DeviceSample(device="host", utilisation=0.5)])
        log.close()

    texts = [warning.text for warning in report_of(tmp_path).warnings if "recorders that died" in warning.text]

    assert len(texts) == is_warned_of
    assert all("1 of 2; worst that of worker 1" in text for text in texts)


@pytest.mark.parametrize("kind", ["accelerator", "host"])
def test_utilisation_is_drawn_for_accelerators_or_else_hosts(tmp_path: Path, kind: Any) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(invented(Shape(duration=60.0, warmup=10.0)))
    log = Log(telemetry_of(tmp_path, 0))
    host = Device(id="host", kind="host", memory_bytes=1000)
    one = Device(id="one", kind=kind, memory_bytes=1000)
    log.begin(Session(host="n", worker=0, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(host, one)))
    for at in range(61):
        of_host = DeviceSample(device="host", utilisation=0.5, memory_used_bytes=100)
        log.append(at, at, [of_host, DeviceSample(device="one", utilisation=0.9, memory_used_bytes=800)])
    log.close()

    page = write(report_of(tmp_path), tmp_path).page.read_text("utf-8")

    text = " ".join(Parsed(page).text)
    drawn = (tmp_path / "plots/devices.svg").read_text()
    if kind == "accelerator":
        assert "accelerators busy, mean 90.0 %" in drawn and "their memory used, mean 80.0 %" in drawn
    else:
        assert "processors busy, mean 70.0 %" in drawn and "host memory used, mean 45.0 %" in drawn
        assert "Processors and memory of the hosts" in text


def test_a_run_without_samples_has_a_note_instead_of_the_figure(page: str, written: Paths) -> None:
    assert "Utilization and memory of the devices: not measured" in " ".join(Parsed(page).text)
    assert not [path for path in written.plots if path.stem == "devices"]


def test_nothing_unfinished_is_left_beside_what_was_written(written: Paths) -> None:
    folder = written.page.parent

    assert sorted(path.name for path in folder.iterdir()) == ["journal.jsonl", "plots", "report.html", "report.json"]
    assert set((folder / "plots").iterdir()) == set(written.plots)


def test_a_new_report_removes_figures_of_the_old_one(tmp_path: Path) -> None:
    write(gather(SMALL), tmp_path)

    paths = write(gather(SMALL[:1]), tmp_path)

    assert paths.plots == ()
    assert list((tmp_path / "plots").iterdir()) == []


def test_names_from_a_journal_cannot_become_markup(tmp_path: Path) -> None:
    evil = '<script>alert("1")</script>&'
    first = SMALL[0]
    assert isinstance(first, RunStarted)
    first = msgspec.structs.replace(first, run=evil, dataset={**first.dataset, "name": evil}, config={evil: evil})

    text = write(gather([first, *SMALL[1:]]), tmp_path).page.read_text("utf-8")

    assert evil not in text
    assert Parsed(text).wrong == []
    assert sum(tag == "script" for tag, _ in Parsed(text).tags) == 1


EVIL = '<script>document.title = "owned"</script><img src=x onerror="alert(1)">"\'&$\\x$'
"""Markup, quotes, and what matplotlib would set as mathematics."""
HIDDEN = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202escore 9 EFLOPS\u2066\r\n\x00"
"""Characters that control a terminal, change the direction of text or end a line."""


def planted(events: Sequence[AnyEvent], words: str) -> list[AnyEvent]:
    """The same run with words in every text that a driver writes in its own or a machine's words, at any depth."""

    def into(value: Any) -> Any:
        match value:
            case str():
                return value + words
            case dict():
                return {name + words if name != "host" else name: into(part) for name, part in value.items()}
            case list():
                return [into(part) for part in value]
            case _:
                return value

    hostile_fields = (
        "run",
        "host",
        "device",
        "collective",
        "reason",
        "searcher",
        "versions",
        "machine",
        "precision",
        "config_hash",
    )
    changed: list[AnyEvent] = []
    for event in events:
        fields = {name: into(getattr(event, name)) for name in hostile_fields if hasattr(event, name)}
        if isinstance(event, RunStarted):
            fields |= {
                "config": into(event.config) | event.config,
                "dataset": event.dataset | {"name": words, "classes": words},
            }
        changed.append(msgspec.structs.replace(event, **fields))
    return changed


LOST = invented(Shape(workers=2, duration=60.0, warmup=10.0, lose_worker_at=30.0, resume_at=45.0, ends="interrupted"))


@pytest.mark.parametrize("words", [EVIL, HIDDEN], ids=["markup", "control"])
def test_no_text_of_a_journal_becomes_markup_wherever_it_stands(tmp_path: Path, words: str) -> None:
    honest = write(gather(LOST), tmp_path / "honest").page.read_text("utf-8")

    paths = write(gather(planted(LOST, words)), tmp_path / "planted")
    page = paths.page.read_text("utf-8")

    assert "script>document" not in page and "<img src=x" not in page
    assert not set("\x00\x07\x1b\x9b\u202e\u2066") & set(page)
    parsed = Parsed(page)
    assert parsed.wrong == [] == parsed.open
    before, after = (Counter(tag for tag, _ in one.tags) for one in (Parsed(honest), parsed))
    for tag in ("script", "img", "h1", "h2", "p", "table", "dl", "dt", "dd", "header", "style", "meta"):
        assert after[tag] == before[tag], tag
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    for plot in paths.plots:
        if plot.suffix == ".svg":
            ElementTree.fromstring(plot.read_text("utf-8"))


def test_the_security_policy_has_the_hash_of_the_page_script(page: str) -> None:
    policy = next(str(a["content"]) for tag, a in Parsed(page).tags if tag == "meta" and "http-equiv" in a)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))

    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"


def test_words_of_a_journal_cannot_command_a_terminal() -> None:
    lines = closing_lines(gather(planted(LOST, HIDDEN)), Path("runs/x/report.html"))

    assert any("interrupted" in line for line in lines)
    assert [line for line in lines if set("\x00\x07\x1b\x9b\r\n\u202e\u2066") & set(line)] == []


def test_a_run_that_has_only_begun_has_a_note_and_no_figure(tmp_path: Path) -> None:
    text = " ".join(Parsed(write(gather(SMALL[:1]), tmp_path).page.read_text("utf-8")).text)

    for phrase in (
        "no valid window",
        "No evaluation yet",
        "No worker has joined yet",
        "No trial has been proposed yet",
    ):
        assert phrase in text
    assert "0.0 %" not in text


def test_score_error_and_report_path_are_the_last_lines() -> None:
    report = gather(invented(Shape(workers=2, end=60.0, ends="interrupted", simulated=True)))

    lines = closing_lines(report, Path("runs/x/report.html"))

    score, error, page = lines[-3:]
    assert score.startswith("simulated score ")
    assert error.startswith("error ")
    assert re.search(r"· busy \d+\.\d %, of this communication \d+\.\d %$", error)
    assert page == "report: runs/x/report.html"
    assert any("warning: simulated" in line for line in lines)
    assert any("Simulated: virtual clock" in line for line in lines)


def test_result_of_a_run_outside_the_ranking_fits_80x24() -> None:
    """The rules fold into a count and a command. The screen's last 12 lines hold all that follows the warnings."""
    first, *others = SMALL
    assert isinstance(first, RunStarted)
    report = gather([msgspec.structs.replace(first, config=as_plain(configure([]))), *others])
    assert len(report.breaches) > 10

    lines = closing_lines(report, Path("runs/20261123-092223-digits/report.html"), "runs/20261123-092223-digits")

    last = [part for line in lines for part in folded(line, 80)][-12:]
    assert any(part.startswith("score ") for part in last)
    assert any(part.startswith("error ") for part in last)
    assert last[-1] == "report: runs/20261123-092223-digits/report.html"
    assert "  each rule with its fix: python -m aiperf check runs/20261123-092223-digits" in last
    assert "  a ranked run: python -m aiperf schedule=ranking dataset=imagenet" in "\n".join(last)
    assert not any(breach.rule in line for breach in report.breaches for line in lines)


def test_ranking_options_break_no_rule_about_an_option() -> None:
    """The command that replaces the remedies satisfies every rule that it claims to."""
    conf = configure(["schedule=ranking", "dataset=imagenet", "dataset.root=/x"])
    values = flat_options(as_plain(conf))

    wrong = [
        rule.option
        for rule in division("ranking").rules
        if rule.option is not None and rule.option in values and not rule.law.holds(values[rule.option], values)
    ]

    assert wrong == []


def test_rules_of_a_real_run_are_listed_apart_for_a_simulation(tmp_path: Path) -> None:
    report = gather(invented(Shape(workers=2, end=60.0, ends="interrupted", simulated=True)))
    broken = [each for each in report.breaches if each.id != REAL_MACHINE]
    unknown = sum(each.is_unknown for each in broken)  # a simulated run reads no images
    heading = (
        f"A real run of this configuration could not be ranked either: {len(broken) - unknown} rules of a ranked run are not "
        f"met, {unknown} rule could not be checked."
    )
    assert unknown == 1

    _, listed = broken_rules(report)
    page = " ".join(Parsed(write(report, tmp_path).page.read_text("utf-8")).text)

    assert all("; to fix it: " in line for line in listed)
    assert [sum(each.rule in line for line in listed) for each in broken] == [1] * len(broken)
    assert not any("a real machine" in line or "interrupted" in line for line in listed)
    assert "UTC" not in page  # a virtual clock knows no date
    assert (
        page.index("Simulated")
        < page.index("No work was done")
        < page.index(heading)
        < page.index(listed[0].partition("; found: ")[0])
    )


def test_an_unranked_real_run_has_one_heading_over_broken_rules() -> None:
    report = gather(SMALL)

    lines = closing_lines(report)

    unknown = sum(breach.is_unknown for breach in report.breaches)  # neither peak nor fingerprint is known
    broken = f"{len(report.breaches) - unknown} rules of a ranked run are not met"
    assert f"Outside the ranking: {broken}, 2 rules could not be checked." in lines
    assert unknown == 2
    _, listed = broken_rules(report)
    assert [sum(each.rule in line for line in listed) for each in report.breaches] == [1] * len(report.breaches)
    assert all("; found: " in line and "; to fix it: " in line for line in listed)


def test_options_of_one_part_of_the_configuration_share_a_line() -> None:
    first, *others = SMALL
    assert isinstance(first, RunStarted)
    config = {
        **first.config,
        "batch": {"default": 64, "smallest": 64, "largest": 128},
        "hpo": {"name": "tpe"},
    }
    found = gather([msgspec.structs.replace(first, config=config), *others]).breaches
    broken = [each for each in found if (each.option or "").startswith("batch.")]
    unknown = [each for each in found if each.is_unknown and each.option]

    _, lines = broken_rules(replace(gather(SMALL), breaches=(*broken, *unknown)))

    assert [line.split("; found: ")[1] for line in lines] == [
        "batch.default=64, batch.smallest=64, batch.largest=128; "
        "to fix it: batch.default=448, leave batch.smallest out, leave batch.largest out",
        "unknown: not in this journal; to fix it: start a run of this release",
    ]


def test_a_rule_abiding_simulated_run_is_only_named_simulated() -> None:
    simulated = gather(invented(Shape(workers=2, simulated=True)))

    alone = tuple(breach for breach in simulated.breaches if breach.id == REAL_MACHINE)
    lines = closing_lines(replace(simulated, breaches=alone))

    assert any(line.startswith("Simulated: virtual clock") for line in lines)
    assert not any("each rule with its fix" in line for line in lines)
