"""The report's colours: a colour-blind-safe palette (Okabe and Ito, 2008), each with its role, for light and for dark.

Figures are drawn in the light colours; inside the page every one of them becomes a CSS variable, so that the same figure
follows the reader's light or dark screen, and prints on white.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Colour:
    """One role; each light value is used by one role only, since the page tells roles apart by it."""

    role: str
    light: str
    dark: str


INK = Colour("ink", "#1b1d21", "#e9ebee")
MUTED = Colour("muted", "#5a6169", "#a4abb4")
GRID = Colour("grid", "#e4e6e9", "#2c3138")
LINE = Colour("line", "#c3c8ce", "#474e57")
PAPER = Colour("paper", "#fefefe", "#181b1f")
SHADE = Colour("shade", "#f0f1f3", "#22262b")
BLUE = Colour("blue", "#0072b2", "#5eb3ec")
BLUE_PALE = Colour("blue-pale", "#4f9fd0", "#2f7fb5")
SKY = Colour("sky", "#a9cfe8", "#3a637f")
VERMILION = Colour("vermilion", "#d55e00", "#ff8c4d")
GREEN = Colour("green", "#009e73", "#42cfa2")
AMBER = Colour("amber", "#e69f00", "#f2b84b")
PURPLE = Colour("purple", "#b0578d", "#dd93bd")
IDLE = Colour("idle", "#f6dccb", "#4a2f22")

COLOURS = (INK, MUTED, GRID, LINE, PAPER, SHADE, BLUE, BLUE_PALE, SKY, VERMILION, GREEN, AMBER, PURPLE, IDLE)


def as_css(dark: bool) -> str:
    """The declarations of all roles as CSS custom properties."""
    return " ".join(f"--{colour.role}: {colour.dark if dark else colour.light};" for colour in COLOURS)
