"""Comparison of options given for a resumed run with the options in its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration
from aiperf.journal.options import option_differences
from aiperf.ranking.law import written


def require_same(words: Sequence[str], given: RunConf, held: RunConf, run: str) -> None:
    """Check that the typed options of a resumed run have the values in its journal."""
    differing = differences(words, as_plain(given), as_plain(held))
    if differing:
        raise BadConfiguration(
            f"a run keeps the configuration it began with. '{run}' has {'; '.join(differing)}: leave these options out, or "
            "begin another run in a new folder"
        )


def differences(words: Sequence[str], given: dict[str, Any], held: dict[str, Any]) -> list[str]:
    """Return a text 'OPTION=JOURNAL, not TYPED' for each typed option with another value than in the journal."""
    typed = {word.lstrip("+").partition("=")[0] for word in words}
    return [
        f"{each.name}={written(each.second)}, not {written(each.first)}"
        for each in option_differences(given, held)
        if typed & {each.name, each.name.partition(".")[0]}
    ]
