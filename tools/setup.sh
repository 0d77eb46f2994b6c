#!/usr/bin/env bash
# Brings the project's environment up in .venv, step by step, each step said before it is taken.
# Run again it does only what is missing. Called by `make setup`; see docs/setup.md for what may go wrong.
#
#   PYTHON    the interpreter the environment is made from (3.11 or newer)
#   JOBS      compilers that Horovod's build runs side by side (2)
#   HOROVOD   auto: build it, or say why not and go on without; require: stop where it cannot be built; off: leave it out
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
JOBS=${JOBS:-2}
HOROVOD=${HOROVOD:-auto}
VENV=.venv
PY=$VENV/bin/python
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/aiperf/wheels
LOG=$VENV/setup.log

started=$(date +%s)
say() { printf '[setup %3d s] %s\n' $(($(date +%s) - started)) "$*"; }
fail() { printf '[setup] cannot go on: %s\n' "$*" >&2; exit 1; }
quietly() { # runs a step with its output in the log, and shows the log's end if it fails
  if ! "$@" >>"$LOG" 2>&1; then
    tail -n 25 "$LOG" >&2
    fail "the step above failed: $*. The whole log: $LOG"
  fi
}
pin() { # pin NAME prints NAME==VERSION from the constraints file
  grep -iE "^$1==" constraints.txt || fail "constraints.txt names no version of '$1'; it pins every package of a CPU build"
}

command -v "$PYTHON" >/dev/null || fail "no '$PYTHON'; install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "'$PYTHON' is $("$PYTHON" -V 2>&1); Python 3.11 or newer is needed: make setup PYTHON=/path/to/python3"

if [ ! -x "$PY" ]; then
  say "1/5 environment in $VENV from $("$PYTHON" -V)"
  "$PYTHON" -m venv "$VENV" || fail "'$PYTHON -m venv' does not work; on Debian and Ubuntu: apt-get install python3-venv"
fi
: >"$LOG"
# constraints-cuda.txt pins the packages of the default CUDA build (nvidia-*, cuda-*, triton). Another index may have a build for
# another CUDA release, whose packages have other versions.
constraints=(--constraint constraints.txt)
if [ -e /dev/nvidiactl ] && [ -z "${PIP_INDEX_URL:-}" ]; then constraints+=(--constraint constraints-cuda.txt); fi
pip_install() { quietly "$PY" -m pip install --disable-pip-version-check "${constraints[@]}" "$@"; }

# torch first and exactly this version: a later step asked for a range would take the newest build.
say "2/5 $(pin torch) (some hundred megabytes on a first visit)"
pip_install "$(pin torch)"
remark=$("$PY" tools/torch_build.py)
[ -z "$remark" ] || say "$remark"

say "3/5 the other packages, pinned by constraints.txt"
pip_install --editable '.[dev]'

say "4/5 torchvision beside this torch"
if ! bash tools/torchvision_without_cuda.sh "$PY" >>"$LOG" 2>&1; then
  lacks=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
  fail "torchvision does not import beside this torch. ${lacks:-The end of $LOG says why.} Then: make setup"
fi

want="$(pin horovod)"
if [ "$HOROVOD" = off ]; then
  say "5/5 Horovod left out (HOROVOD=off): trainer.collective=torch will be used"
elif "$PY" tools/horovod_plan.py --fits >/dev/null 2>&1; then
  say "5/5 $want is there"
else
  say "5/5 $want from its sources (95 s to 4 min at -j$JOBS on two cores; kept in $CACHE)"
  if ! bash tools/build_horovod.sh "$PY" "$want" "$CACHE" "$JOBS" >>"$LOG" 2>&1; then
    reason=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
    reason=${reason:-"the build failed; the end of $LOG says how: $(grep -iE 'error' "$LOG" | tail -n 1)"}
    [ "$HOROVOD" = require ] && fail "Horovod could not be built. $reason"
    say "Horovod could not be built. $reason"
    say "going on without it: trainer.collective=auto will take torch's DistributedDataParallel, and every report will say so"
  fi
fi
"$PY" -m compileall -q aiperf morphism searchers cluster >/dev/null 2>&1 || true
say "done"
