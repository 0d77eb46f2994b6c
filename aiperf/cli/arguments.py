"""Verbs of the command line, their arguments, their --help and the errors in their arguments."""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from aiperf import progress
from aiperf.cli.output import in_users_form, program
from aiperf.errors import BadConfiguration
from aiperf.files import given_path
from aiperf.mistyped import as_number, short
from aiperf.nearest import nearest, nearest_option
from aiperf.option_limits import FieldLimits

VERB_GROUPS = {
    "runs": {
        "status": "show the state of a run on another host or in a batch job",
        "preflight": "check the machines of a run without starting it",
        "sweep": "repeat a run, or run several settings in turn",
        "prepare": "check a data set, and pack it into shards",
        "rehearse": "simulate clusters of 1 to 4096 workers and draw the result",
        "predict": "predict the score of a run before it starts",
        "drive": "start or resume the run of a folder (called by batch scripts)",
        "join": "make this host a node of a run in progress",
    },
    "results": {
        "score": "print the figures of a run",
        "report": "write the report of a run from its journal: HTML, JSON, plots",
        "compare": "compare runs, and test whether they differ",
        "rank": "list runs by score or another figure",
        "breakdown": "print the parts of a traced training step",
        "scale": "print what is left with more accelerators, and what took the rest",
        "standing": "compare runs with a published list of supercomputers",
        "export": "write results for TensorBoard, MLflow, Optuna, or as CSV",
    },
    "rules and proofs": {
        "check": "check a run against the rules of a division",
        "verify": "recompute a run from its journal and report contradictions",
        "quality": "evaluate a kept checkpoint again and compare the quality with the journal",
        "announce": "sign the announcement of a run before it starts",
        "witness": "sign the states of another site's journal while its run goes on",
        "submit": "pack runs for a list, with checksums and a signature",
        "inspect": "check packed runs as their receiver",
    },
    "tools": {
        "flops": "count the operations of a network",
        "topology": "compute bisection and all-reduce times of a network of links",
        "hpl": "predict HPL by layers of communication, and compare it with real HPL",
        "roofline": "draw what bounds a program, a network or a run",
        "bops": "count and measure basic operations of programs, and peaks",
        "morph": "grow a network and show each step",
        "completion": "print the completion script of a shell",
    },
}
"""Verbs by group, with the meaning that `--help` shows."""
VERBS = {verb: meaning for verbs in VERB_GROUPS.values() for verb, meaning in verbs.items()}
VERB_MODULES = {
    verb: f"aiperf.cli.verbs.{group.partition(' ')[0]}.{verb}" for group, verbs in VERB_GROUPS.items() for verb in verbs
}


_LONG = ("bops", "hpl", "predict", "verify", "rank", "export", "submit", "quality")
"""Verbs that print their progress, except with --json."""
OF_HYDRA = dict.fromkeys(("-m", "--multirun"), "`python -m aiperf sweep --over OPTION=A,B` runs with each value")
OF_HYDRA |= dict.fromkeys(
    ("-cd", "--config-dir", "-cn", "--config-name", "-cp", "--config-path"),
    "options for all runs go into conf/site.yaml or the file that AIPERF_SITE names (docs/clusters.md)",
)
"""Flags of Hydra's programs, and what this program has instead."""


class VerbModule(Protocol):
    """Interface of the module of a verb (a command such as `python -m aiperf report`)."""

    DESCRIPTION: str
    EXAMPLES: Sequence[str]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace, list[str]], int]
    """Execute the verb and return its exit status.

    First argument: values of the arguments that `add_arguments` defines. Second: options of a run as typed, OPTION=VALUE. The
    list is empty if the module has no OPTIONS.
    """


class _Once(argparse._StoreAction):
    """Value of a flag that takes one. A second one would replace it in silence."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = namespace.__dict__.setdefault("_given", set())
        if option_string is not None and self.dest in given:
            before = getattr(namespace, self.dest)
            parser.error(f"{option_string} is given once, but found {str(before)!r} and {str(values)!r}: leave one out")
        given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class _Parser(argparse.ArgumentParser):
    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def format_help(self) -> str:
        return in_users_form(super().format_help())

    def error(self, message: str) -> NoReturn:
        raise BadConfiguration(f"{message}. `{self.prog} --help` lists the arguments")


DATA_ROOT = "[dataset.root=FOLDER]"
"""`OPTIONS` of verbs that evaluate weights."""


def data_root(verb: str, options: Sequence[str]) -> str | None:
    """Return the value of dataset.root, the only option of some verbs. None if it is not given."""
    root = None
    for word in options:
        name, _, root = word.partition("=")
        if name != "dataset.root" or not root:
            raise BadConfiguration(
                f"{verb} takes only the option dataset.root=FOLDER, but found {word!r}: leave it out"
            )
    return root


def execute(words: Sequence[str]) -> int:
    verb, *given = words
    parser = parser_of(verb)
    # else it would be one of several files or runs
    roots = [word for word in given if word.startswith("dataset.root=") and run_options_of(verb) == DATA_ROOT]
    try:
        arguments, others = parser.parse_known_args([word for word in given if word not in roots])
    except SystemExit:  # argparse exits only after --help: see `_Parser.error`
        return 0
    empty = [
        (f"{before} " if before.startswith("--") and not word else "") + repr(word)
        for before, word in pairwise(("", *given))
        if not word or (word.startswith("--") and word.endswith("="))
    ]
    if empty:
        parser.error(f"an argument of {verb} must not be empty, but found {empty[0]}: give a value, or leave it out")
    wrong = [word for word in others if word.startswith("-") or not run_options_of(verb)]
    if wrong:
        parser.error(f"{verb} has no argument {wrong[0]!r}{_nearest(wrong[0], parser)}")
    with progress.shown(verb) if verb in _LONG and not getattr(arguments, "json", False) else nullcontext():
        return verb_module(verb).execute(arguments, [*others, *roots])


def require_run_words(words: Sequence[str], options: Sequence[str]) -> None:
    """Check that a command line without a verb has no misspelt verb and no flags (`--seed`)."""
    if words and re.fullmatch(r"\w[\w-]*", words[0]) and words[0] not in options:
        raise BadConfiguration(
            f"the first word is a verb or an option key=value, but found {words[0]!r}{nearest(words[0], VERBS)}. "
            f"`{program()} help` lists the verbs. A run needs none"
        )
    for word in words:
        if word.startswith("-"):
            flag, _, value = word.partition("=")
            name = flag.lstrip("-").replace("-", "_")
            if instead := OF_HYDRA.get(flag):
                raise BadConfiguration(f"an option is written key=value, but found {word!r}: {instead}")
            hint = f": write {name}={value or 'VALUE'}" if name in options else nearest_option(name, options)
            raise BadConfiguration(
                f"an option is written key=value, but found {word!r}{hint}. `{program()} help options` lists them"
            )


def verb_module(verb: str) -> VerbModule:
    """Import and return the module of an existing verb, such as 'report'. A module is imported once."""
    return cast(VerbModule, importlib.import_module(VERB_MODULES[verb]))


def run_options_of(verb: str) -> str:
    """Return the options of a run in the usage line of a verb. '' if its module has no OPTIONS."""
    options: str = getattr(verb_module(verb), "OPTIONS", "")
    return options


def parser_of(verb: str) -> argparse.ArgumentParser:
    """Return a new argument parser of an existing verb, such as 'report', with its help."""
    module = verb_module(verb)
    parser = _Parser(
        prog=f"{program()} {verb}",
        description=module.DESCRIPTION,
        epilog="\n".join(["examples:", *(f"  {program()} {verb} {example}".rstrip() for example in module.EXAMPLES)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    if options := run_options_of(verb):
        usage = parser.format_usage().strip()
        is_full = len(usage.splitlines()[-1]) + len(options) > shutil.get_terminal_size().columns - 3
        between = "\n" + " " * len(f"usage: {parser.prog} ") if is_full else " "
        parser.usage = f"{usage.removeprefix('usage: ')}{between}{options}"
    return parser


def _nearest(word: str, parser: argparse.ArgumentParser) -> str:
    return nearest(word.partition("=")[0], [option for action in parser._actions for option in action.option_strings])


def add_allowed(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add --allowed to a parser: a file of allowed signers, which is checked."""
    parser.add_argument(
        "--allowed", type=allowed_signers, metavar="FILE", help=f"allowed_signers file of OpenSSH: {meaning}"
    )


def add_json(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add --json, which prints the result, and --out FILE, which writes it (`print_result`). `more`: end of the help."""
    parser.add_argument("--json", action="store_true", help=f"print JSON{more}")
    parser.add_argument(
        "--out", dest="json_file", type=given_path, metavar="FILE", help="write the JSON of --json to this file"
    )


def allowed_signers(word: str) -> Path:
    from aiperf.submission.signatures import read_allowed

    return read_allowed(Path(word))


def add_number(
    parser: argparse.ArgumentParser,
    option: str,
    meaning: str,
    kind: type[int] | type[float] = int,
    *,
    metavar: str = "N",
    default: float | None = None,
    default_in_words: str | None = None,
    **bounds: float,
) -> None:
    """Add to a parser a flag that takes one number. `default` is then None."""
    limits = FieldLimits((kind,), False, False, bounds)
    shown = f"{default:g}" if default_in_words is None and default is not None else default_in_words
    parser.add_argument(
        option,
        type=_reader(option, limits, kind),
        metavar=metavar,
        default=default,
        help=f"{meaning} ({limits.description}{'' if shown is None else f'; default {shown}'})".replace("%", "%%"),
    )


def add_stated_error(parser: argparse.ArgumentParser) -> None:
    add_number(
        parser,
        "--error",
        "show the time to this error, 1 - accuracy",
        float,
        metavar="E",
        default_in_words="0.3, the largest of the ranking",
        above=0,
        below=1,
    )


def _reader(option: str, limits: FieldLimits, kind: type[int] | type[float]) -> Callable[[str], float]:
    def read(word: str) -> float:
        try:
            value = kind(word)
        except ValueError:
            value = None
        if value is None or not limits.accepts(value):
            better = as_number(option, word, is_whole=kind is int)
            fix = f"write {option} {better}" if better not in (None, word) else "give such a value, or leave it out"
            raise BadConfiguration(f"{option} is {limits.kind} and {limits.condition}, but found {short(word)}: {fix}")
        return value

    return read
