"""`python -m aiperf submit`: bundle runs into one signed and inspected file."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiperf.cli.arguments import add_allowed
from aiperf.cli.output import print_parts
from aiperf.files import given_path

DESCRIPTION = """Bundles runs into one file: journals, telemetry, recomputed reports, the site's announcements, checksums and
a signature. A second file, NAME.weights, has the checkpoints that show the qualities. The files are created
only if `inspect` finds nothing bad in them. docs/ranking.md lists what they reveal about the site."""
EXAMPLES = (
    "20261121-120000-imagenet --key ~/.ssh/id_ed25519 --log site/",
    "runs/20261121-* --key ~/.ssh/id_ed25519.pub --out site.aiperf.tar.gz",
    "20261121-120000-digits --no-telemetry",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--key",
        type=given_path,
        help="file of an Ed25519 private key, or the .pub file of a key in ssh-agent (default: unsigned)",
    )
    parser.add_argument(
        "--log", metavar="FILE", help="announcement log of the site (default: the log in the runs' options)"
    )
    parser.add_argument("--out", type=given_path, metavar="FILE", help="new file (default: FIRST_RUN.aiperf.tar.gz)")
    parser.add_argument(
        "--no-telemetry", action="store_true", help="leave the telemetry out; the submission records this"
    )
    parser.add_argument("--no-weights", action="store_true", help="no file of weights; the qualities are not shown")
    add_allowed(parser, "inspect with it, like the receiver")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.verbs.rules.inspect import parts
    from aiperf.errors import explained
    from aiperf.journal.run_folder import run_folder
    from aiperf.submission.archive import weights_beside
    from aiperf.submission.build import build

    folders = [run_folder(word) for word in arguments.runs]
    path = arguments.out or Path(f"{folders[0].resolve().name}.aiperf.tar.gz")
    with explained(path, "could not be written", "Name another file: --out FILE"):
        inspection = build(
            folders,
            path,
            key=arguments.key,
            log=arguments.log,
            with_telemetry=not arguments.no_telemetry,
            with_weights=not arguments.no_weights,
            signers=arguments.allowed,
        )
        print_parts(parts(inspection))
        if inspection.is_good:
            print(f"submission  {path}, {path.stat().st_size} bytes, SHA-256 {inspection.sha256}")
            if (weights := weights_beside(path)).exists():
                print(f"weights     {weights}, {weights.stat().st_size} bytes: send it with the submission")
    if not inspection.is_good:
        print(f"no submission was created: the inspection of '{path}' found faults")
    return 0 if inspection.is_good else 1
