"""The report in a real browser: what it shows on a wide, a narrow and a dark screen, and on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image
from playwright.sync_api import Error

from aiperf.journal.journal import NAME, Journal
from aiperf.page import palette
from aiperf.report.gather import gather
from aiperf.report.write import report_of, write
from tests.builders.report_journal import Shape, invented, many_workers
from tests.report.test_written import LOST, planted
from tests.rigs import browser as chromium
from tests.rigs.browser import Tab

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="no Chromium: apt-get install chromium"),
]


EVIL = '<script>document.title = "owned"</script><img src="data:," onerror="document.title=\'owned\'">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    runs = {
        "finished": invented(Shape(duration=90.0)),
        "begun": invented(Shape())[:1],
        "simulated": invented(Shape(duration=90.0, simulated=True, device="simulated", collective="simulated")),
        "simulated and begun": invented(Shape(simulated=True))[:1],
        "hostile": planted(LOST, EVIL + "x" * 150 + " many_words.and-marks" * 6),
        "hundreds": many_workers(workers=300, trials_each=2),
    }
    folder = tmp_path_factory.mktemp("reports")
    return {name: write(gather(events), folder / name).page for name, events in runs.items()}


def test_requests_and_errors_of_a_page_are_both_reported(browser: Tab, tmp_path: Path) -> None:
    page = tmp_path / "loud.html"
    page.write_text(
        """<link rel="stylesheet" href="lacking.css"><script src="http://127.0.0.1:9/far.js"></script>
        <script>console.warn("a word"); null.here</script>"""
    )

    browser.show(page)

    assert {(tmp_path / "lacking.css").as_uri(), "http://127.0.0.1:9/far.js"} <= set(browser.requests)
    for expected in ("a word", "null", "ERR_FILE_NOT_FOUND"):
        assert any(expected in complaint for complaint in browser.complaints), (expected, browser.complaints)
    with pytest.raises(Error, match="no_such_name"):
        browser.ask("no_such_name")


@pytest.mark.parametrize("name", ["finished", "begun", "hundreds"])
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (992, "light"), (400, "light"), (390, "light")]
)
def test_the_page_fits_its_window_and_asks_for_nothing(
    browser: Tab, pages: dict[str, Path], name: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    browser.show(pages[name], width=width, scheme=scheme)

    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []
    assert browser.requests == [pages[name].resolve().as_uri()]
    # A part wider than the window scrolls in its frame. Nothing else exceeds the window.
    outside = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('.skip')
        && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.ask(outside) == []
    # Only a picture scrolls, on a phone: the cells of a row are then below each other.
    hidden = """[...document.querySelectorAll('.framed .scroll, .others dd, .number')]
        .filter(e => e.scrollWidth > e.clientWidth + 1 && e.offsetParent).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.ask(hidden) == []


def test_the_score_is_the_largest_thing_in_sight(browser: Tab, pages: dict[str, Path]) -> None:
    browser.show(pages["finished"])

    sizes = browser.ask("[...document.querySelectorAll('header *')].map(e => parseFloat(getComputedStyle(e).fontSize))")
    headline = browser.ask("parseFloat(getComputedStyle(document.querySelector('.headline dd')).fontSize)")
    assert headline == max(sizes)
    assert "FLOPS" in browser.ask("document.querySelector('.headline dd').innerText")
    assert browser.ask("document.querySelector('.notes').getBoundingClientRect().top < innerHeight")


def test_pictures_show_values_on_hover_without_a_script(browser: Tab, pages: dict[str, Path]) -> None:
    browser.show(pages["finished"])

    titles = "[...document.querySelectorAll('figure svg g > title')].map(e => e.textContent)"
    shown = browser.ask(titles)

    for expected in (
        r"\d+ s: score [\d.]+ [MG]FLOPS",
        r".* s: error [\d.]+ %, trial \d+",
        r"trial \d+: [\d.]+ MFLOP, [\d.]+ %",
    ):
        assert [each for each in shown if re.fullmatch(expected, each)], expected
    assert browser.ask("document.querySelectorAll('a[*|href^=\"hover:\"]').length") == 0
    under = """[...document.querySelectorAll('figure svg g > title')].filter(e => {
        e.parentNode.scrollIntoView({block: 'center', behavior: 'instant'});
        const box = e.nextElementSibling.getBoundingClientRect();
        const seen = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return seen && seen.closest('g:has(> title)'); }).length"""
    assert browser.ask(under) > 0


def test_words_and_lines_stand_out_from_what_they_lie_on() -> None:
    """WCAG 2.2 AA: 4.5 to 1 for text, 3 to 1 for what is drawn."""
    for scheme in ("light", "dark"):
        paper, shade = (getattr(colour, scheme) for colour in (palette.PAPER, palette.SHADE))
        for colour in palette.AS_TEXT:
            for behind in (paper, shade):
                assert contrast(rgb(getattr(colour, scheme)), rgb(behind)) >= 4.5, (colour.role, scheme, behind)
        for colour in palette.AS_LINES:
            assert contrast(rgb(getattr(colour, scheme)), rgb(paper)) >= 3, (colour.role, scheme)


def test_axes_and_labels_have_enough_contrast(browser: Tab, pages: dict[str, Path]) -> None:
    browser.show(pages["finished"])

    drawn = browser.ask(
        """[...document.querySelectorAll('figure svg text')]
             .map(e => [e.tagName, getComputedStyle(e).fill])"""
    )
    paper = browser.ask("getComputedStyle(document.body).backgroundColor")
    words = {fill for tag, fill in drawn if tag == "text"}
    assert words and all(contrast(fill, paper) >= 4.5 for fill in words)
    spines = browser.ask(
        """[...document.querySelectorAll('figure svg g[id*="-patch_"] path')].map(e => getComputedStyle(e))
             .filter(s => s.fill === 'none' && s.strokeLinejoin === 'miter').map(s => s.stroke).filter(c => c !== 'none')"""
    )
    assert spines and all(contrast(stroke, paper) >= 3 for stroke in spines), set(spines)


@pytest.mark.parametrize("name", ["simulated", "simulated and begun"])
def test_a_simulated_run_has_its_own_colour_and_no_measurement(browser: Tab, pages: dict[str, Path], name: str) -> None:
    browser.show(pages[name])

    blues = [re.escape(colour.light) for colour in (palette.BLUE, palette.BLUE_PALE, palette.SKY)]
    page = pages[name].read_text("utf-8")
    assert "var(--blue)" not in page[page.index("<main") :] and "var(--sky)" not in page[page.index("<main") :]
    for plot in pages[name].parent.glob("plots/*.svg"):
        if plot.stem != "architecture":
            assert not re.search("|".join(blues), plot.read_text("utf-8"), re.IGNORECASE), plot.name
    purple = browser.ask("getComputedStyle(document.querySelector('nav a')).color")
    assert contrast(purple, rgb(palette.PURPLE.light)) == pytest.approx(1.0)
    page_text = browser.ask("document.body.innerText").lower()
    assert not re.search(r"(?<!not )(?<!nothing )\bmeasured\b", page_text.replace("a dash was not measured", "")), (
        re.findall(r".{40}(?<!not )measured.{30}", page_text)
    )


def test_raw_keys_appear_only_as_options(browser: Tab, pages: dict[str, Path]) -> None:
    browser.show(pages["finished"])

    browser.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    browser.ask("document.querySelectorAll('td.option, #table-configuration, .note li').forEach(each => each.remove())")
    page_text = browser.ask("document.body.innerText").replace("digits_small", "").replace("x86_64", "")
    assert re.findall(r"\b\w*[a-z]_[a-z]\w*", page_text) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_can_be_read_on_light_and_dark(
    browser: Tab, pages: dict[str, Path], scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    browser.show(pages["finished"], scheme=scheme)

    ink = browser.ask("getComputedStyle(document.querySelector('figure svg text')).fill")
    paper = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert contrast(ink, paper) >= 4.5
    image = Image.open(browser.screenshot(tmp_path / "page.png"))
    assert image.width == 1200
    assert image.height == browser.ask("document.documentElement.scrollHeight")
    assert len(image.convert("RGB").reduce(4).getcolors(1 << 20) or []) > 200


def test_a_script_in_a_reason_of_a_journal_does_not_run(browser: Tab, tmp_path: Path) -> None:
    # Write a forged journal with a correct hash chain.
    events = invented(Shape(duration=60.0, end=30.0, ends=EVIL, name=f"run{EVIL}"))
    with Journal(tmp_path / NAME) as journal:
        journal.append(events)

    browser.show(write(report_of(tmp_path), tmp_path).page)

    assert "owned" not in browser.ask("document.title.replace(/<.*/, '')")
    assert browser.ask("document.scripts.length") == 1
    assert EVIL in browser.ask("document.querySelector('.about').textContent")
    assert browser.complaints == []


def test_the_page_runs_only_its_own_script(browser: Tab, pages: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(pages["finished"].read_text("utf-8").replace("</main>", f"{EVIL}</main>", 1))

    browser.show(page)

    assert browser.ask("document.scripts.length") == 2
    assert browser.ask("document.title") != "owned"
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)
    assert browser.ask("document.querySelectorAll('#table-trials th button').length") > 0  # its own ran


def rgb(colour: str) -> str:
    """`#0072b2` as `rgb(0, 114, 178)`."""
    return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:], 16)})"


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2 between two colours written as rgb(r, g, b)."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_words_in_a_figure_do_not_lie_over_each_other(browser: Tab, pages: dict[str, Path]) -> None:
    browser.show(pages["finished"], width=1280)

    overlaps = browser.ask(
        """[...document.querySelectorAll('figure svg')].flatMap(svg => {
          const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
          return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
            Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 &&
            Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3).map(([b]) => a + ' | ' + b)); })"""
    )
    assert overlaps == []


def test_a_click_on_a_head_sorts_the_trials(browser: Tab, pages: dict[str, Path]) -> None:
    browser.show(pages["finished"])
    column = "[...document.querySelectorAll('#table-trials tbody tr')].map(r => Number(r.cells[0].dataset.key))"

    browser.ask("document.querySelector('#table-trials th button').click()")
    downwards = browser.ask(column)
    browser.ask("document.querySelector('#table-trials th button').click()")
    upwards = browser.ask(column)

    assert downwards == sorted(downwards, reverse=True)
    assert upwards == sorted(downwards)
    assert browser.ask("document.querySelector('#table-trials th').getAttribute('aria-sort')") == "ascending"


@pytest.mark.parametrize("name", ["finished", "hundreds", "hostile"])
@pytest.mark.parametrize(("paper", "width"), [("A4", 695), pytest.param("Letter", 718, marks=pytest.mark.slow)])
def test_nothing_is_cut_on_paper(browser: Tab, pages: dict[str, Path], name: str, paper: str, width: int) -> None:
    """The width is the paper's between margins of 13 mm, in pixels of 1/96 inch."""
    browser.show(pages[name])

    browser.show_paper(width)

    outside = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.skip') && !e.closest('svg')
        && (e.getBoundingClientRect().right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1
            && getComputedStyle(e).overflowX !== 'visible' && e.clientWidth > 0)).map(e => e.outerHTML.slice(0, 120))"""
    assert browser.ask(outside) == []
    clamped = "[...document.querySelectorAll('h1, .about dd')].filter(e => e.scrollHeight > e.clientHeight + 1).length"
    assert browser.ask(clamped) == 0


def test_the_page_prints_with_everything_open_on_a_few_sheets(
    browser: Tab, pages: dict[str, Path], tmp_path: Path
) -> None:
    browser.show(pages["finished"], scheme="dark")

    printed = browser.print(tmp_path / "report.pdf").read_bytes()

    assert printed.startswith(b"%PDF")
    sheets = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 4 <= sheets <= 8
    assert browser.ask("[...document.querySelectorAll('details:not(.screen)')].every(each => each.open)")
