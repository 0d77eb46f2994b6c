"""`python -m aiperf export`: a run's results for TensorBoard, MLflow, Optuna or a spreadsheet, from its journal."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from aiperf.files import given_path

DESCRIPTION = "Writes a run's results in the form of another tool, from its journal alone (docs/export.md)."
EXAMPLES = (
    "runs/20261121-120000-digits --to tensorboard",
    "20261121-120000-digits --to mlflow --out /srv/mlflow/digits",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, for which tool, and where to."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--to", metavar="TOOL", required=True, help="tensorboard, mlflow, optuna or csv")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=given_path,
        help="a folder that is not there yet (default: export/TOOL in the run's)",
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Writes the export, and says how the tool opens it; gives the exit status."""
    from aiperf.export.export import export, tool
    from aiperf.journal.run_folder import run_folder

    name = tool(arguments.to)
    folder = run_folder(arguments.run)
    out: Path = folder / "export" / name if arguments.out is None else arguments.out
    target = export(folder, name, out)
    print(f"exported to {out}")
    print(_opened(name, target))
    return 0


def _opened(name: str, target: Path) -> str:
    """How the tool opens it."""
    place = shlex.quote(str(target))
    return {
        "tensorboard": f"open it: tensorboard --logdir {place}",
        "mlflow": f"open it: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {place}",
        "optuna": f"open it: optuna-dashboard {place}",
        "csv": f"what each column is: {target / 'README.md'}",
    }[name]
