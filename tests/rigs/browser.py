"""The machine's own Chromium without a window, through Playwright. Nothing is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, sync_playwright

PATIENCE_SECONDS = 60.0


def executable() -> str | None:
    """Return the path of Chromium, or None if it is not installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Tab:
    """Tab that records the network requests and the errors of its page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def show(
        self, page: Path, width: int = 1200, height: int = 900, scheme: Literal["light", "dark"] = "light"
    ) -> None:
        """Open a file in a window of this size and wait until it has loaded."""
        self.requests.clear()
        self.complaints.clear()
        self._page.set_viewport_size({"width": width, "height": height})
        self._page.emulate_media(color_scheme=scheme, media="screen")
        self._page.goto(page.resolve().as_uri())

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page, or raise playwright's Error."""
        return self._page.evaluate(expression)

    def press(self, key: str) -> None:
        """Press a key in the focused element."""
        self._page.keyboard.press(key)

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        self._page.wait_for_function(expression)

    def screenshot(self, path: Path) -> Path:
        """Write the entire page as PNG."""
        self._page.screenshot(path=path, full_page=True)
        return path

    def print(self, path: Path, paper: Literal["A4", "Letter"] = "A4") -> Path:
        """Write the printed page as PDF."""
        self._page.emulate_media(media="print")
        self._page.pdf(path=path, format=paper, print_background=False)
        return path

    def show_paper(self, width: int) -> None:
        """Lay the page out for paper of this width between its margins, until another page is shown."""
        self._page.set_viewport_size({"width": width, "height": 1000})
        self._page.emulate_media(media="print")
        self.ask("document.querySelectorAll('details:not(.screen)').forEach(each => { each.open = true; })")


@contextmanager
def browser() -> Iterator[Tab]:
    """A Chromium with one tab, which ends with the block."""
    program = executable()
    assert program is not None, "ask executable() first"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, timeout=PATIENCE_SECONDS * 1000)
        try:
            yield Tab(chromium.new_page())
        finally:
            chromium.close()
