"""`python -m aiperf completion`: a shell's completion: verbs and their arguments, options with their choices, folders of runs.

The script asks this verb at each Tab with the line so far; what can stand at its end is worked out in `aiperf.cli.candidates`.
"""

from __future__ import annotations

import argparse
import shlex

from aiperf.cli.program import MODULE, SCRIPT
from aiperf.errors import BadConfiguration

DESCRIPTION = f"""Prints the completion of a shell, for `{SCRIPT}` and, in bash, for `{MODULE}`."""
EXAMPLES = (
    "bash > ~/.local/share/bash-completion/completions/aiperf-cluster",
    "zsh > ~/.zfunc/_aiperf-cluster",
    "fish > ~/.config/fish/completions/aiperf-cluster.fish",
)
OPTIONS = ""

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
    # readline sees only what follows the last = of a word
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell; or what it asks."""
    parser.add_argument("shell", nargs="?", metavar="SHELL", help="one of bash, zsh, fish")
    parser.add_argument(
        "--line", metavar="LINE", help="print what can stand at the end of this line: what the scripts ask"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints the script, or the candidates, one a line; gives the exit status."""
    if arguments.line is not None:
        from aiperf.cli.candidates import candidates

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
