"""Colours of the pages, each with its role, for light and dark screens. Colour-blind-safe, after Okabe and Ito (2008)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Colour:
    """Colour of one role. Each light value belongs to one role, because the page replaces light values by roles."""

    role: str
    light: str
    dark: str


INK = Colour("ink", "#1b1d21", "#e9ebee")
MUTED = Colour("muted", "#5a6169", "#a4abb4")
GRID = Colour("grid", "#e4e6e9", "#2c3138")
LINE = Colour("line", "#c3c8ce", "#474e57")
AXIS = Colour("axis", "#7f868e", "#6d7681")
PAPER = Colour("paper", "#fefefe", "#181b1f")
SHADE = Colour("shade", "#f0f1f3", "#22262b")
BLUE = Colour("blue", "#0072b2", "#5eb3ec")
BLUE_PALE = Colour("blue-pale", "#468fc1", "#3587bf")
SKY = Colour("sky", "#a9cfe8", "#3a637f")
VERMILION = Colour("vermilion", "#b84c00", "#ff8c4d")
GREEN = Colour("green", "#007d5b", "#42cfa2")
AMBER = Colour("amber", "#b87d00", "#f2b84b")
PURPLE = Colour("purple", "#a84c84", "#dd93bd")
PURPLE_PALE = Colour("purple-pale", "#c46a9b", "#b06a92")
PURPLE_FAINT = Colour("purple-faint", "#e3c3d6", "#6b4159")
IDLE = Colour("idle", "#f6dccb", "#4a2f22")

COLOURS = (
    INK, MUTED, GRID, LINE, AXIS, PAPER, SHADE, BLUE, BLUE_PALE, SKY, VERMILION, GREEN, AMBER,
    PURPLE, PURPLE_PALE, PURPLE_FAINT, IDLE,
)  # fmt: skip
AS_TEXT = (INK, MUTED, BLUE, VERMILION, GREEN, PURPLE)
"""Colours of text: contrast 4.5 to 1 against paper and shade, as WCAG 2.2 AA requires."""
AS_LINES = (*AS_TEXT, AXIS, BLUE_PALE, AMBER, PURPLE_PALE)
"""Colours of axes and curves: contrast 3 to 1 against paper, as WCAG 2.2 AA requires for graphics."""


@dataclass(frozen=True, slots=True)
class Accent:
    strong: Colour
    pale: Colour
    faint: Colour
    """Colour of labelled areas."""


def accent(*, is_simulated: bool) -> Accent:
    """Return the accent colour of a run in three strengths: purple for a simulated run, blue for a real one."""
    return Accent(PURPLE, PURPLE_PALE, PURPLE_FAINT) if is_simulated else Accent(BLUE, BLUE_PALE, SKY)


def as_css(dark: bool) -> str:
    """Return the CSS custom properties of all colours as one line: `--role: colour; …`."""
    return " ".join(f"--{colour.role}: {colour.dark if dark else colour.light};" for colour in COLOURS)
