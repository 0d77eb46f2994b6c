"""Suggestions for misspelt words in error messages: known words with a similar spelling, found by difflib."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

MOST_NAMED = 2
"""Largest number of suggestions."""
BEGINS = 3
"""Number of letters from which a word suggests the words that begin with it."""


def nearest(word: str, right: Collection[str]) -> str:
    """Return ' (did you mean …?)' with one or two known words that are similar to a misspelt word. '' if none is similar.

    `word`: word of the user. `right`: known words. Words that begin with `word` (3 letters or more) are suggested first.

    >>> nearest("resnet50", ["resnet50_v1", "resnet50_v1_5", "resnet20"]), nearest("foo", ["bar"])
    (" (did you mean 'resnet50_v1' or 'resnet50_v1_5'?)", '')
    """
    lower = word.lower()
    begin = [each for each in right if len(lower) >= BEGINS and each.lower().startswith(lower)]
    near = difflib.get_close_matches(lower, right, n=1, cutoff=0.6)
    return did_you_mean(begin if 1 <= len(begin) <= MOST_NAMED else near)


def nearest_option(word: str, known: Sequence[str]) -> str:
    """Return ' (did you mean …?)' with one or two options that are similar to a misspelt name. '' if none is similar."""
    lower = word.lower().replace("-", "_")
    part, dot, last = lower.rpartition(".")
    if lower in known:
        return did_you_mean([lower])
    same = [each for each in known if each.rpartition(".")[2] == last]
    if 1 <= len(same) <= MOST_NAMED:
        return did_you_mean(same)
    inside = [each for each in known if each.startswith(f"{part}.")] if dot else []
    near = difflib.get_close_matches(lower, inside or known, n=1, cutoff=0.75 if inside else 0.72)
    if not near:
        by_last = {each.rpartition(".")[2]: each for each in reversed(known)}
        near = [by_last[name] for name in difflib.get_close_matches(last, by_last, n=1, cutoff=0.8)]
    return did_you_mean(near)


def did_you_mean(words: Sequence[str]) -> str:
    """Return ' (did you mean …?)' with these words, or '' for none."""
    return f" (did you mean {' or '.join(map(repr, words))}?)" if words else ""
