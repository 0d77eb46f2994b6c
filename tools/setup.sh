#!/usr/bin/env bash
# Create the environment of this project in .venv. A second call only does what is missing. Called by `make setup`. Errors and
# their fixes: docs/setup.md.
#
#   PYTHON    interpreter for the environment, 3.11 or newer
#   JOBS      parallel compilers of Horovod's build (default: 2)
#   HOROVOD   auto: build it, or print the reason and continue without it. require: stop if it cannot be built. off: skip it
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
fail() { printf '[setup] failed: %s\n' "$*" >&2; exit 1; }
quietly() { # run a step with its output in the log, and print the end of the log if it fails
  if ! "$@" >>"$LOG" 2>&1; then
    tail -n 25 "$LOG" >&2
    fail "the step above failed: $*. Complete log: $LOG"
  fi
}
pin() { # print NAME==VERSION from constraints.txt
  grep -iE "^$1==" constraints.txt || fail "constraints.txt must pin every package of a CPU build, but it has no version of '$1': add it"
}

command -v "$PYTHON" >/dev/null || fail "there is no '$PYTHON'. Install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "Python 3.11 or newer is needed, but '$PYTHON' is $("$PYTHON" -V 2>&1): make setup PYTHON=/path/to/python3"

if [ ! -x "$PY" ]; then
  say "1/5 environment in $VENV from $("$PYTHON" -V)"
  "$PYTHON" -m venv "$VENV" || fail "'$PYTHON -m venv' does not work. Debian and Ubuntu: apt-get install python3-venv"
fi
: >"$LOG"
# constraints-cuda.txt pins the packages of the default CUDA build (nvidia-*, cuda-*, triton). Another index may have a build for
# another CUDA release, whose packages have other versions.
constraints=(--constraint constraints.txt)
if [ -e /dev/nvidiactl ] && [ -z "${PIP_INDEX_URL:-}" ]; then constraints+=(--constraint constraints-cuda.txt); fi
pip_install() { quietly "$PY" -m pip install --disable-pip-version-check "${constraints[@]}" "$@"; }

# torch first and exactly this version: a later step with a range would install the newest build.
say "2/5 $(pin torch) (a download of several hundred megabytes)"
pip_install "$(pin torch)"
remark=$("$PY" tools/torch_build.py)
[ -z "$remark" ] || say "$remark"

say "3/5 the other packages, pinned by constraints.txt"
pip_install --editable '.[dev]'

say "4/5 torchvision for this torch"
if ! bash tools/torchvision_without_cuda.sh "$PY" >>"$LOG" 2>&1; then
  lacks=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
  fail "torchvision cannot be imported with this torch. ${lacks:-The reason is at the end of $LOG.} Then: make setup"
fi

want="$(pin horovod)"
if [ "$HOROVOD" = off ]; then
  say "5/5 Horovod skipped (HOROVOD=off): runs use trainer.collective=torch"
elif "$PY" tools/horovod_plan.py --fits >/dev/null 2>&1; then
  say "5/5 $want is installed"
else
  say "5/5 $want from its sources (95 s to 4 min with $JOBS jobs on two cores, cached in $CACHE)"
  if ! bash tools/build_horovod.sh "$PY" "$want" "$CACHE" "$JOBS" >>"$LOG" 2>&1; then
    reason=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
    reason=${reason:-"the build failed. See the end of $LOG: $(grep -iE 'error' "$LOG" | tail -n 1)"}
    [ "$HOROVOD" = require ] && fail "Horovod could not be built. $reason"
    say "Horovod could not be built. $reason"
    say "continuing without it: trainer.collective=auto uses torch's DistributedDataParallel, and every report names it"
  fi
fi
"$PY" -m compileall -q aiperf morphism searchers cluster >/dev/null 2>&1 || true
say "done"
