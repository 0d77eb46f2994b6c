"""Paths with any characters: typed, created, and printed for the next command."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aiperf.config import _options, configure, option_names
from aiperf.errors import BadConfiguration
from aiperf.journal.journal import NAME
from aiperf.journal.run_folder import run_folder
from aiperf.overrides import HERE, read
from aiperf.planning.plan import folder_of, make_folder
from aiperf.shell_command import command, option, resuming
from tests.rigs.user import User

PATHS = HERE | {
    "cluster.data_path",
    "cluster.directory",
    "cluster.python",
    "cluster.runs_path",
    "dataset.index",
    "dataset.root",
}
"""All options that are paths."""

# a part of a path has no slash and no zero byte, and a terminal shows no control characters
PARTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["C"]), min_size=1, max_size=20).filter(
    lambda part: part not in (".", "..")
)
SIGNS = r"""~ & ' " # , (1) = {} ${x} [a] $HOME * \ \' ~a a~b null true 1e3 007 é 名 a=b a:b @x !y %z ;"""
NASTY = st.sampled_from(SIGNS.split())
NAMES = st.one_of(NASTY, PARTS, st.builds("{}{}{}".format, NASTY, PARTS, NASTY)).filter(
    # a variable or a user that the shell did not replace is refused at the beginning of a path
    lambda name: len(name.encode()) < 200 and not re.fullmatch(r"\$\w+|\$\{\w+\}|~[\w.-]+|\s.*|.*\s", name, re.DOTALL)
)


@given(name=NAMES, folder=NAMES)
@settings(max_examples=4, deadline=None)
def test_a_run_is_created_and_found_in_the_named_folder(
    tmp_path_factory: pytest.TempPathFactory, name: str, folder: str
) -> None:
    runs = tmp_path_factory.mktemp("place") / folder / name

    made = make_folder(folder_of(configure([f"runs={runs}", "name=one"]), 0.0))

    assert made.parent == runs and made.is_dir()
    (made / NAME).touch()
    for typed in (resuming(made), command("score", str(made))):
        *_, word = shlex.split(typed)
        value = configure([word]).resume if word.startswith("resume=") else word
        assert value is not None and run_folder(value).samefile(made)
    (made / NAME).unlink()


@given(name=NAMES, of=st.sampled_from(sorted(PATHS)))
@settings(max_examples=200, deadline=None)
def test_a_relative_path_is_read_unchanged(name: str, of: str) -> None:
    (word,) = shlex.split(shlex.join([option(of, name)]))

    (read_back,) = read([word], replace(_options(), absent=frozenset()))

    assert (read_back.option, Path(read_back.value)) == (of, Path(name))


def test_characters_of_hydras_grammar_are_part_of_a_path() -> None:
    conf = configure(["dataset=images", f"dataset.root=/{SIGNS}", f"start=a{SIGNS}", f"runs=b{SIGNS}"])

    assert (conf.dataset.root, conf.start, conf.runs) == (f"/{SIGNS}", f"a{SIGNS}", f"b{SIGNS}")  # type: ignore[attr-defined]


def test_home_is_expanded_only_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/one")

    assert configure(["runs=~/runs"]).runs == "/home/one/runs"
    assert configure(["runs=a/~/b~"]).runs == "a/~/b~"
    with pytest.raises(OSError, match="there is no such user"):
        configure(["runs=~nobody-of-that-name/x"])


@pytest.mark.parametrize(
    ("word", "value"),
    [("runs='a b'", "a b"), ('runs="a, b"', "a, b"), ("start=null", None), ("follow=null", None)],
)
def test_quotes_and_null_keep_their_meaning(word: str, value: str | None) -> None:
    assert getattr(configure([word]), word.partition("=")[0]) == value


@given(text=st.one_of(PARTS, NASTY, st.just("InfiniBand NDR, 8 × 400 Gb/s"), st.just("Universität Zürich (1), b=c")))
@settings(max_examples=30, deadline=None)
def test_a_free_text_is_read_unchanged(text: str) -> None:
    assume(text != "null" and not (len(text) > 1 and text[0] == text[-1] and text[0] in "'\""))

    (word,) = read([f"system.interconnect={text}"], _options())

    assert (word.option, word.value) == ("system.interconnect", text)


def test_an_example_in_help_and_signs_are_accepted(aiperf: User) -> None:
    shown = aiperf("help", "system.interconnect").out
    (example,) = re.findall("'(.*)'", shown)

    words = [f"system.interconnect={example}", "system.site=Universität Zürich (1), b=c"]
    form = configure(words).system
    assert (form.interconnect, form.site) == (example, "Universität Zürich (1), b=c")


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(BadConfiguration, match="runs is a text, but 'runs=' has nothing"):
        configure(["runs="])


def test_path_options_are_complete() -> None:
    names = set(option_names())

    assert names >= PATHS
    like_paths = ("root", "path", "file", "folder", "directory", "index", "runs", "resume", "follow")
    assert {name for name in names if name.rpartition(".")[2].endswith(like_paths)} <= PATHS | {"cluster.follow"}
