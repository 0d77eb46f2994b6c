"""The picture of a rehearsal: score and efficiency over the number of workers, beside perfect scaling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from aiperf.simulate.rehearse import Rehearsed

_INK, _LINE, _PALE = "#222222", "#1f5fa8", "#b8b8b8"


def draw(sweep: Sequence[Rehearsed], folder: Path) -> tuple[Path, Path]:
    """Writes rehearsal.png and rehearsal.svg into a folder."""
    workers = [each.workers for each in sweep]
    scores = [each.score_flops_per_second / 1e15 for each in sweep]
    perfect = [score / each.efficiency for score, each in zip(scores, sweep, strict=True)]
    figure = Figure(figsize=(7.0, 6.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    upper.loglog(workers, perfect, color=_PALE, linestyle="--", label="perfect: workers × one worker")
    upper.loglog(workers, scores, color=_LINE, marker="o", label="simulated")
    upper.set_ylabel("score in PFLOPS")
    upper.set_title(
        f"Simulated: {sweep[-1].accelerators // sweep[-1].workers} accelerators a worker; no work was done", color=_INK
    )
    upper.legend(frameon=False)
    efficiency = [100 * each.efficiency for each in sweep]
    lower.semilogx(workers, efficiency, color=_LINE, marker="o")
    lower.axhline(100, color=_PALE, linestyle="--")
    lower.set_ylabel("efficiency in %")
    lower.set_ylim(min(95.0, min(efficiency) - 1), max(101.0, max(efficiency) + 0.5))
    lower.set_xlabel("workers")
    lower.set_xticks(workers, [str(each) for each in workers])
    lower.minorticks_off()
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    paths = (folder / "rehearsal.png", folder / "rehearsal.svg")
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths
