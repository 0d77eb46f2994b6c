"""Export to TensorBoard event files: the run, and below trials/ one sub-run per trial with its hyperparameters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from aiperf.export.record import Curve, RunRecord, trial_parameters, trial_results
from aiperf.report.facts import TrialFacts
from aiperf.report.trial_facts import morphs_text
from aiperf.sanitize import sanitize


def write(record: RunRecord, folder: Path, out: Path) -> None:
    """Write a TensorBoard event file of the run into an existing folder, and one of each trial into trials/NUMBER/ in it."""
    with SummaryWriter(folder) as writer:
        facts = {"run": record.title} | record.parameters() | record.results()
        _add_text(writer, record, "run", "\n".join(f"{name}: {sanitize(str(value))}" for name, value in facts.items()))
        for name, graph in record.graphs().items():
            _add_text(writer, record, f"graph/{name}", json.dumps(graph, indent=1))
        _add_curves(writer, record, record.curves())
    digits = len(str(max((trial.number for trial in record.report.trials), default=0)))
    for trial in record.report.trials:
        with SummaryWriter(folder / "trials" / f"{trial.number:0{digits}d}") as writer:
            _add_trial(writer, record, trial)


def _add_trial(writer: SummaryWriter, record: RunRecord, trial: TrialFacts) -> None:
    named = {
        name: sanitize(value) if isinstance(value, str) else value for name, value in trial_parameters(trial).items()
    }
    results = {f"trial/{name}": float(value) for name, value in trial_results(trial).items()}
    writer.add_hparams(named, results, run_name=".", global_step=trial.epochs)
    reason = f" ({sanitize(trial.reason)})" if trial.reason else ""
    _add_text(
        writer,
        record,
        "trial",
        f"outcome: {trial.outcome}{reason}\nmorphs: {sanitize(morphs_text(trial.morphs)) or 'none'}",
    )
    _add_curves(writer, record, record.trial_curves(trial))


def _add_text(writer: SummaryWriter, record: RunRecord, tag: str, text: str) -> None:
    as_code = "\n".join(f"    {line}" for line in text.split("\n"))
    writer.add_text(tag, as_code, 0, record.unix(0.0))


def _add_curves(writer: SummaryWriter, record: RunRecord, curves: Iterable[Curve]) -> None:
    for name, points in curves:
        for at, step, value in points:
            writer.add_scalar(name, value, step, record.unix(at))
