"""What a shell runs at each Tab: it asks `completion --line` with the line so far, and offers the answer."""

from __future__ import annotations

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
"""By their names."""
