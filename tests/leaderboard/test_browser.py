"""The page of a list in a real browser: 3, 30 and 500 runs, names that are out for harm, sorted by keyboard, on paper."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from aiperf.journal.sealed_log import JournalHashes
from aiperf.leaderboard.benchmark import Benchmark
from aiperf.leaderboard.entry import Entry, ModelCount, Power, ranking_figure
from aiperf.leaderboard.leaderboard import UnreadableJournal, leaderboard
from aiperf.leaderboard.list_files import page
from aiperf.ranking.breaches import RuleViolation
from aiperf.run_warning import RunWarning
from tests.builders.leaderboard_entry import QUICK, RANKED, entry
from tests.builders.listed_runs import HOSTILE
from tests.rigs import browser as chromium
from tests.rigs.browser import Tab

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="no Chromium: apt-get install chromium"),
]

SIMULATED = replace(QUICK, standing="simulated")
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "AMD Instinct MI300X", "Huawei Ascend 910B")


def runs(number: int) -> list[Entry]:
    """As many runs of three benchmarks, some with names that are out for harm, some without an end."""
    chance = random.Random(number)
    return [_run(at, chance) for at in range(number)]


def _run(at: int, chance: random.Random) -> Entry:
    benchmark: Benchmark = (RANKED, RANKED, RANKED, QUICK, SIMULATED)[at % 5]
    score, accelerators = chance.uniform(1e13, 2e17), chance.choice([8, 64, 512, 4096])
    watts = chance.uniform(300, 700) * accelerators
    rule = RuleViolation("the declared length is run to its end", "ended after 2 h", "resume=RUN")
    others: dict[str, Any] = {
        "lacks": "the run has not ended" if at % 11 == 10 else "",
        "mfu": None if at % 7 == 3 else chance.uniform(0.2, 0.7),
        "error": (error := chance.uniform(0.18, 0.3)),
        "valid_flops": score * ((1 - error) / 0.763) ** 5 if benchmark == RANKED else None,
        "regulated": score * chance.uniform(1.2, 1.7),
        "flops_per_second_interval": (0.99 * score, 1.01 * score),
        "accelerators": (ModelCount(chance.choice(MODELS), accelerators),),
        "power": Power(watts, score / watts, "accelerators", at % 2) if at % 3 else None,
        "availability": chance.uniform(0.9, 1.0),
        "breaches": () if benchmark == RANKED else (rule,),
        "rules_not_met": () if benchmark == RANKED else (f"{rule.rule}; found: {rule.found}",),
        "warnings": (
            RunWarning("3 of 64 workers were lost", "critical", "look"),
            RunWarning("no power", "note", "sample it"),
        )[: at % 3],
        "system": f"System {chance.choice(HOSTILE)} {at}" if at % 13 == 5 else None,
        "site": "Centre of Computing" if at % 4 == 1 else None,
        "folder": f"runs/{at}",
        "journal": JournalHashes(f"first {at}", f"last {at}"),
    }
    name = HOSTILE[at % len(HOSTILE)] if at % 6 == 2 else f"2026-11-{1 + at % 28:02d}T12-00-00-run-{at}"
    return entry(name, score, benchmark=benchmark, **others)


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("lists")
    written = {}
    for number in (3, 30, 500):
        unread = [UnreadableJournal(f"runs/bad-{at}", HOSTILE[at % len(HOSTILE)]) for at in range(number // 10)]
        written[number] = folder / f"rank-{number}.html"
        written[number].write_text(page(leaderboard(runs(number), unread, ranking_figure("score"))))
    return written


@pytest.mark.parametrize("number", [3, 30, 500])
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (400, "light")])
def test_a_list_fits_its_window_and_asks_for_nothing(
    browser: Tab, pages: dict[int, Path], number: int, width: int, scheme: Literal["light", "dark"]
) -> None:
    browser.show(pages[number], width=width, scheme=scheme)

    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert (browser.complaints, browser.requests) == ([], [pages[number].resolve().as_uri()])
    assert browser.ask("document.title") == "AIPerf list by score"
    assert browser.ask("document.scripts.length") == 1
    assert browser.ask("document.querySelectorAll('table[id^=table-order] tbody tr').length") == number
    outside = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('.skip')
        && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.ask(outside) == []


def test_each_table_has_a_caption_and_headings(browser: Tab, pages: dict[int, Path]) -> None:
    browser.show(pages[30])

    assert browser.ask("[...document.querySelectorAll('table')].filter(each => !each.caption.textContent).length") == 0
    assert browser.ask("document.querySelectorAll('thead th:not([scope=col])').length") == 0
    assert browser.ask("document.querySelectorAll('tbody tr:not(:has(th[scope=row]))').length") == 0
    assert browser.ask("document.querySelector('#table-order-1 th').getAttribute('aria-sort')") == "ascending"


def test_keyboard_sorts_columns_and_missing_values_stay_last(browser: Tab, pages: dict[int, Path]) -> None:
    browser.show(pages[500])
    browser.ask(
        """window.head = [...document.querySelectorAll('#table-order-1 thead th')].find(e => e.textContent === 'MFU')"""
    )
    keys = """[...document.querySelectorAll('#table-order-1 tbody tr')].map(r => r.cells[head.cellIndex].dataset.key ?? null)"""

    def after(key: str) -> list[float | None]:
        browser.ask("head.querySelector('button').focus()")
        browser.press(key)
        return [None if each is None else float(each) for each in browser.ask(keys)]

    down, way_down = after("Enter"), browser.ask("head.getAttribute('aria-sort')")
    up, way_up = after("Space"), browser.ask("head.getAttribute('aria-sort')")

    known = [each for each in down if each is not None]
    missing = [None] * (len(down) - len(known))
    assert missing and len(known) > 100
    assert (way_down, down) == ("descending", [*sorted(known, reverse=True), *missing])
    assert (way_up, up) == ("ascending", [*sorted(known), *missing])
    assert browser.ask("document.querySelectorAll('#table-order-1 [aria-sort]').length") == 1


def test_first_click_puts_the_smallest_first_if_less_is_better(browser: Tab, pages: dict[int, Path]) -> None:
    browser.show(pages[30])

    browser.ask("[...document.querySelectorAll('#table-order-1 button')].find(e => e.textContent === 'error').click()")

    errors = browser.ask(
        """(() => { const t = document.querySelector('#table-order-1');
        const at = [...t.tHead.rows[0].cells].find(e => e.textContent === 'error').cellIndex;
        return [...t.tBodies[0].rows].map(r => Number(r.cells[at].dataset.key)); })()"""
    )
    assert errors == sorted(errors) and len(errors) > 10


def test_a_name_leads_to_what_else_is_known_of_its_run(browser: Tab, pages: dict[int, Path]) -> None:
    browser.show(pages[30])

    browser.ask("document.querySelector('#table-order-1 tbody tr:nth-child(4) a').click()")

    browser.wait_for(
        "document.querySelector(':target') !== null && document.querySelector(':target').checkVisibility()"
    )
    name = browser.ask("document.querySelector('#table-order-1 tbody tr:nth-child(4) a').textContent")
    assert name in browser.ask("document.querySelector(':target').textContent")


def test_simulated_runs_are_coloured_as_such(browser: Tab, pages: dict[int, Path]) -> None:
    browser.show(pages[30])

    edges = browser.ask(
        """[...document.querySelectorAll('section > div')].map(e => [e.className, getComputedStyle(e).borderLeftColor])"""
    )
    colours = dict(edges)
    assert colours["simulated"] not in (colours["division"], colours["outside"])


def test_a_list_prints_without_the_details_of_each_run(browser: Tab, pages: dict[int, Path], tmp_path: Path) -> None:
    browser.show(pages[500], scheme="dark")

    printed = browser.print(tmp_path / "rank.pdf").read_bytes()

    boxes = {tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox\s*\[([\d. ]+)\]", printed)}
    assert all(width > height for _, _, width, height in boxes) and boxes
    assert 10 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 80
