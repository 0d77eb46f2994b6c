"""The tree of arguments: the verbs, what each takes, its --help; and one form for whatever is wrong with them.

A verb is a module of this folder, as `VerbModule` says; only the one that is named is imported. Words that are no arguments of
a verb are options of a run, key=value, and are handed on to a verb that takes them.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, cast

from aiperf.cli.program import as_called, program
from aiperf.errors import BadConfiguration
from aiperf.nearest import nearest

VERBS = {
    "report": "write a run's report from its journal: one HTML file, report.json, plots",
    "export": "write a run's results for another tool  RUN --to tensorboard|mlflow|optuna|csv [--out DIR]",
    "status": "show how a run stands that goes on elsewhere",
    "score": "print a run's figures  [--json]",
    "check": "hold a run to the rules of a division, for people and CI  RUN [--division quick] [--json] [--junit FILE]",
    "verify": "work a run out again from its journal, and say what cannot be true  RUN [--all] [--sample N] [--json]",
    "rank": "a list of runs by score or another figure  RUN…|DIR [--by METRIC] [--out DIR] [--json]",
    "compare": "compare runs, and test whether they differ  A B [--max-regression 2%] [--json]",
    "flops": "count a network's operations  NAME_OR_FILE [--image 224] [--classes 1000] [--batch N] [--json]",
    "morph": "grow a network and show each step  NAME [--steps 20] [--seed 0] [--json FILE] [--draw FILE.svg]",
    "prepare": "check a data set, and pack it into shards  dataset=imagenet dataset.root=…",
    "preflight": "check the machines of a run, without a run  [OPTION=VALUE …] [--json]",
    "announce": "tell of a run before it starts, signed  [OPTION=VALUE …] --key KEY --log FILE",
    "submit": "bundle runs for others: journals, reports, checksums, signature  RUN… [--key KEY] [--log FILE]",
    "inspect": "judge a submission as its receiver  BUNDLE… [--allowed FILE] [--json]",
    "drive": "begin the run of a folder, or go on with it (scripts of batch jobs call it)  RUN [OPTION=VALUE …]",
    "join": "make this host a node of a run that goes on  RUN",
    "completion": "print the completion of a shell  bash|zsh|fish",
    "rehearse": "sweep simulated clusters of 1 to 4096 workers and draw the result",
}
"""Each in the module of its name; as `--help` tells them."""


class VerbModule(Protocol):
    """What a verb's module offers."""

    DESCRIPTION: str
    EXAMPLES: Sequence[str]
    OPTIONS: str
    """Which options of a run may follow, for the usage; '' for none."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    carry_out: Callable[[argparse.Namespace, list[str]], int]
    """With the options that were handed on; gives the exit status."""


class _Parser(argparse.ArgumentParser):
    """Whose errors are those of the rest of the command line."""

    def error(self, message: str) -> NoReturn:
        raise BadConfiguration(f"{message}; `{self.prog} --help` says what it takes")


def carry_out(words: Sequence[str]) -> int:
    """Carries out the verb that is the first word; gives the exit status.

    Raises:
        BadConfiguration: an argument that there is not; the message names the nearest right one.
    """
    verb, *given = words
    module = cast(VerbModule, importlib.import_module(f"aiperf.cli.{verb}"))
    parser = parser_of(verb, module)
    try:
        arguments, rest = parser.parse_known_args(given)
    except SystemExit:  # how argparse leaves after --help, and after nothing else: see `_Parser.error`
        return 0
    wrong = [word for word in rest if word.startswith("-") or not module.OPTIONS]
    if wrong:
        parser.error(f"{verb} has no argument {wrong[0]!r}{_nearest(wrong[0], parser)}")
    return module.carry_out(arguments, rest)


def parser_of(verb: str, module: VerbModule) -> argparse.ArgumentParser:
    """What the verb takes. Its options of a run, if it has any, are no part of it."""
    parser = _Parser(
        prog=f"{program()} {verb}",
        description=as_called(module.DESCRIPTION),
        epilog="\n".join(["examples:", *(f"  {program()} {verb} {example}".rstrip() for example in module.EXAMPLES)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    if module.OPTIONS:
        parser.usage = f"{parser.format_usage().removeprefix('usage: ').strip()} {module.OPTIONS}"
    return parser


def _nearest(word: str, parser: argparse.ArgumentParser) -> str:
    return nearest(word.partition("=")[0], [option for action in parser._actions for option in action.option_strings])
