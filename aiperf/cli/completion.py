"""`python -m aiperf completion`: a shell's completion: verbs and their arguments, options with their choices, folders of runs.

The script asks this verb at each Tab with the line so far; what can stand at its end is worked out in `aiperf.cli.candidates`.
"""

from __future__ import annotations

import argparse
import shlex

from aiperf.cli.candidates import candidates
from aiperf.cli.program import MODULE, SCRIPT
from aiperf.cli.shell_scripts import SHELLS
from aiperf.errors import BadConfiguration

DESCRIPTION = f"""Prints the completion of a shell, for `{SCRIPT}` and, in bash, for `{MODULE}`."""
EXAMPLES = (
    "bash > ~/.local/share/bash-completion/completions/aiperf-cluster",
    "zsh > ~/.zfunc/_aiperf-cluster",
    "fish > ~/.config/fish/completions/aiperf-cluster.fish",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell; or what it asks."""
    parser.add_argument("shell", nargs="?", metavar="SHELL", help="one of bash, zsh, fish")
    parser.add_argument(
        "--line", metavar="LINE", help="print what can stand at the end of this line: what the scripts ask"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints the script, or the candidates, one a line; gives the exit status."""
    if arguments.line is not None:
        *before, last = _words(arguments.line)
        for candidate in candidates(before[1:], last):
            print(candidate)
        return 0
    if arguments.shell not in SHELLS:
        raise BadConfiguration(f"completion is printed for {', '.join(SHELLS)}; found {arguments.shell!r}")
    print(SHELLS[arguments.shell], end="")
    return 0


def _words(line: str) -> list[str]:
    """The line as its words, the last of which is the one that is completed: '' after a space."""
    try:
        words = shlex.split(line)
    except ValueError:  # within a quote
        words = line.split()
    return words if words and not line[-1:].isspace() else [*words, ""]
