"""`python -m aiperf … --cfg job`: the configuration that the words of a run compose, as YAML; nothing is begun.

It is what the first line of the run's journal would hold. As Hydra has it, --package shows one part; --resolve changes nothing,
since no value of ours refers to another.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from aiperf.errors import BadConfiguration

FLAGS = ("--cfg", "-c")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadConfiguration(f"{message}; the form is [OPTION=VALUE …] --cfg job [--package PART] [--resolve]")


def is_asked(words: Sequence[str]) -> bool:
    """Whether a configuration is to be shown."""
    return any(word.partition("=")[0] in FLAGS for word in words)


def main(words: Sequence[str]) -> int:
    """Prints the YAML; gives the exit status.

    Raises:
        BadConfiguration: options that no run can have, or a part that there is not.
    """
    import yaml

    parser = _Parser(prog="--cfg", add_help=False, allow_abbrev=False)
    parser.add_argument(*FLAGS, dest="which", required=True)
    parser.add_argument("--package", "-p")
    parser.add_argument("--resolve", action="store_true")
    given, rest = parser.parse_known_args(words)
    if given.which != "job":
        raise BadConfiguration(
            f"--cfg job shows the configuration of a run; found --cfg {given.which}: of Hydra itself nothing is configured here"
        )
    from aiperf.config import as_plain, configure

    shown: Any = as_plain(configure(rest))
    if given.package is not None and given.package != "_global_":
        for name in given.package.split("."):
            if not isinstance(shown, dict) or name not in shown:
                raise BadConfiguration(f"--package names a part of the configuration; there is no {given.package!r}")
            shown = shown[name]
        print(f"# @package {given.package}")
    print(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).removesuffix("...\n"), end="")
    return 0
