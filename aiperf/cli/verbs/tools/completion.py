"""`python -m aiperf completion`: print the completion script of a shell, or the candidates for a line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiperf.cli.arguments import VERBS, parser_of, run_options_of
from aiperf.cli.output import MODULE, SCRIPT
from aiperf.errors import BadConfiguration

BASH = r"""# completion of aiperf-cluster and python -m aiperf: eval "$(aiperf-cluster completion bash)"
_aiperf_cluster() {
  local line="${COMP_LINE:0:$COMP_POINT}" word candidate program=("$1")
  COMPREPLY=()
  if [[ $1 == *python* ]]; then
    [[ $line == *" -m aiperf "* ]] || return 0
    program+=(-m aiperf)
    line="aiperf-cluster ${line#*" -m aiperf "}"
  fi
  word="${line##*[[:space:]]}"
  while IFS= read -r candidate; do
    # readline completes only the text after the last = of a word
    [[ $word == *=* && $COMP_WORDBREAKS == *=* ]] && candidate="${candidate#"${word%=*}="}"
    COMPREPLY+=("$candidate")
  done < <("${program[@]}" completion --line "$line" 2>/dev/null)
}
complete -o nospace -o bashdefault -o default -F _aiperf_cluster aiperf-cluster
# not in the place of another completion of Python
complete -p python >/dev/null 2>&1 || complete -o nospace -o bashdefault -o default -F _aiperf_cluster python
complete -p python3 >/dev/null 2>&1 || complete -o nospace -o bashdefault -o default -F _aiperf_cluster python3
"""
ZSH = r"""#compdef aiperf-cluster
# completion of aiperf-cluster: as _aiperf-cluster in a folder of $fpath, or eval "$(aiperf-cluster completion zsh)"
_aiperf_cluster() {
  local -a found
  found=("${(@f)$(aiperf-cluster completion --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
  found=("${(@)found:#}")
  (( $#found )) && compadd -Q -S '' -a found || _files
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _aiperf_cluster "$@"
else
  compdef _aiperf_cluster aiperf-cluster
fi
"""
FISH = r"""# completion of aiperf-cluster
complete -c aiperf-cluster -f -a '(aiperf-cluster completion --line (commandline -cp) | string trim --right --chars " ")'
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
"""Scripts by shell."""

FLAGS_OF_A_RUN = ("--help", "--version", "--cfg")
RUN_OPTIONS = ("resume", "follow")


def candidates(before: Sequence[str], last: str) -> list[str]:
    return sorted({each for each in _possible_words(before, last) if each.startswith(last)})


def _possible_words(before: Sequence[str], last: str) -> Iterator[str]:
    if before and before[0] == "help":
        from aiperf.config import option_names, schemas_of_parts

        yield from (f"{name} " for name in ("options", *VERBS, *schemas_of_parts(), *option_names()))
    elif before and before[0] in VERBS:
        yield from _of_verb(before[0], before[1:], last)
    elif before and before[-1] == "--cfg":
        yield "job "
    else:
        if not before:
            yield from (f"{verb} " for verb in (*VERBS, "help"))
        if last.startswith("-"):
            yield from (f"{flag} " for flag in FLAGS_OF_A_RUN)
        yield from _options(before, last)


def _of_verb(verb: str, before: Sequence[str], last: str) -> Iterator[str]:
    parser = parser_of(verb)
    if last.startswith("-"):
        yield from (f"{flag} " for action in parser._actions for flag in action.option_strings if flag.startswith("--"))
        return
    positional = {str(action.metavar) for action in parser._actions if not action.option_strings}
    if "RUN" in positional:
        yield from _runs(last)
    if "NAME_OR_FILE" in positional and not before:
        from morphism import STARTS

        yield from (f"{start} " for start in STARTS)
    if verb == "completion":
        yield from (f"{shell} " for shell in SHELLS)
    if run_options_of(verb):
        yield from _options(before, last)


def _options(before: Sequence[str], last: str) -> Iterator[str]:
    from aiperf.config import GROUPS, choices, option_names

    key, is_given, value = last.partition("=")
    if is_given:
        group = key.removeprefix("+")
        if group in GROUPS and (group == "cluster") == key.startswith("+"):
            yield from (f"{key}={choice} " for choice in choices(group))
        elif key in RUN_OPTIONS:
            yield from (f"{key}={run}" for run in _runs(value))
        return
    chosen = {word.lstrip("+").partition("=")[0] for word in before}
    for name in option_names():
        part, dot, _ = name.partition(".")
        if part == "cluster" and not (dot and "cluster" in chosen):
            if name not in chosen:
                yield "+cluster="
        elif dot and not last.startswith(f"{part}."):
            yield f"{part}."
        elif name not in chosen:
            yield f"{name}="


def _runs(start: str) -> Iterator[str]:
    """Yield the folders of runs below the folder of `start`, and the names of runs under runs/."""
    from aiperf.journal.journal import NAME

    folder = Path(start.rpartition("/")[0] or ("/" if start.startswith("/") else "."))
    for parent in (folder, *(() if "/" in start else (Path("runs"),))):
        if not parent.is_dir():
            continue
        for path in sorted(parent.iterdir()):
            if (path / NAME).is_file():
                yield f"{shlex.quote(str(path))} "
            elif path.is_dir() and parent == folder and not path.name.startswith("."):
                yield f"{shlex.quote(str(path))}/"


DESCRIPTION = f"""Prints the completion script of a shell, for `{SCRIPT}` and, in bash, for `{MODULE}`."""
EXAMPLES = (
    "bash > ~/.local/share/bash-completion/completions/aiperf-cluster",
    "zsh > ~/.zfunc/_aiperf-cluster",
    "fish > ~/.config/fish/completions/aiperf-cluster.fish",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", metavar="SHELL", help="one of bash, zsh, fish")
    parser.add_argument(
        "--line", metavar="LINE", help="print the completions of the last word of this line (called by the scripts)"
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    if arguments.line is not None:
        *before, last = _words(arguments.line)
        for candidate in candidates(before[1:], last):
            print(candidate)
        return 0
    if arguments.shell not in SHELLS:
        raise BadConfiguration(
            f"completion supports the shells {', '.join(SHELLS)}, but found {arguments.shell!r}: name one of them"
        )
    print(SHELLS[arguments.shell], end="")
    return 0


def _words(line: str) -> list[str]:
    """Split a line into words. The last word is the one to complete: '' after a space."""
    try:
        words = shlex.split(line)
    except ValueError:  # within a quote
        words = line.split()
    return words if words and not line[-1:].isspace() else [*words, ""]
