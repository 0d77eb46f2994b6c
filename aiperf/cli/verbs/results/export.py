"""`python -m aiperf export`: write the results of a run for TensorBoard, MLflow, Optuna or a spreadsheet."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from aiperf.files import given_path

DESCRIPTION = "Writes the results of a run in the format of another tool, from its journal alone (docs/using.md)."
EXAMPLES = (
    "runs/20261121-120000-digits --to tensorboard",
    "20261121-120000-digits --to mlflow --out /srv/mlflow/digits",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--to", metavar="TOOL", required=True, help="tensorboard, mlflow, optuna or csv")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=given_path,
        help="new folder (default: export/TOOL in the run's folder)",
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.export.export import export, tool
    from aiperf.submission.submitted_runs import require_out, run_folder

    name = tool(arguments.to)
    require_out(arguments.run, arguments.out)
    folder = run_folder(arguments.run)
    out: Path = folder / "export" / name if arguments.out is None else arguments.out
    target = export(folder, name, out)
    print(f"exported to {out}")
    print(_opened(name, target))
    return 0


def _opened(name: str, target: Path) -> str:
    place = shlex.quote(str(target))
    return {
        "tensorboard": f"open it: tensorboard --logdir {place}",
        "mlflow": f"open it: mlflow ui --backend-store-uri sqlite:///{place}",
        "optuna": f"open it: optuna-dashboard {place}",
        "csv": f"meaning of the columns: {target / 'README.md'}",
    }[name]
