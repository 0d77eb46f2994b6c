"""`python -m aiperf submit`: runs as one file for others, signed, that has passed the inspection of its receiver."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiperf.cli.program import tell

DESCRIPTION = """Bundles runs into one file: journals, telemetry, system descriptions, configurations, reports worked out anew,
the site's announcements, checksums of all of it, and a signature over these. The file is made only where
`inspect` finds nothing bad in it. What it reveals of the site stands in docs/submission.md."""
EXAMPLES = (
    "20261121-120000-imagenet --key ~/.ssh/id_ed25519 --log site/",
    "runs/20261121-* --key ~/.ssh/id_ed25519.pub --out site.aiperf.tar.gz",
    "20261121-120000-digits --no-telemetry",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and what goes with them."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--key",
        type=Path,
        help="an Ed25519 private key's file; or the .pub of a key that ssh-agent holds; none: unsigned",
    )
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="the site's announcements; none: those that the runs' options name"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="a new file; none: FIRST_RUN.aiperf.tar.gz")
    parser.add_argument("--no-telemetry", action="store_true", help="leave the samples out, which the submission says")
    parser.add_argument(
        "--allowed",
        type=Path,
        metavar="FILE",
        help="inspect with these allowed signers (OpenSSH), as the receiver will",
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Makes the file; gives the exit status: 1 where it would be judged bad, and was not made."""
    from aiperf.cli.inspect import lines
    from aiperf.errors import BadConfiguration
    from aiperf.journal.run_folder import run_folder
    from aiperf.submission.allowed import read_allowed
    from aiperf.submission.build import Wanted, build
    from aiperf.submission.signer import signer_of

    folders = [run_folder(word) for word in arguments.runs]
    path = arguments.out or Path(f"{folders[0].resolve().name}.aiperf.tar.gz")
    wanted = Wanted(
        runs=folders,
        signer=None if arguments.key is None else signer_of(arguments.key),
        log=arguments.log,
        with_telemetry=not arguments.no_telemetry,
    )
    try:
        found = build(wanted, path, None if arguments.allowed is None else read_allowed(arguments.allowed))
        for line in lines(found):
            tell(line)
        if found.is_good:
            print(f"submission  {path}, {path.stat().st_size} bytes, SHA-256 {found.sha256}")
    except OSError as error:
        raise BadConfiguration(f"a submission is written beside '{path}'; it could not be ({error})") from error
    if not found.is_good:
        print(f"no submission was made: '{path}' would be judged bad")
    return 0 if found.is_good else 1
