#!/usr/bin/env bash
# Create the environment of this project in .venv. A second call only does what is missing. Called by `make setup`. Errors and
# their fixes: docs/setup.md.
#
#   PYTHON    interpreter for the environment: 3.11, 3.12, 3.13 or newer
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

# A half environment (its making was stopped) has no pip, and is made anew.
is_made() { [ -x "$PY" ] && "$PY" -m pip --version >/dev/null 2>&1; }
if ! is_made; then
  # All that is missing is told at once, before the first download.
  lacks=()
  if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    others=$(command -v python3.13 || command -v python3.12 || command -v python3.11 || true)
    lacks+=("Python 3.11, 3.12 or 3.13, but '$PYTHON' is $("$PYTHON" -V 2>&1 || true): make setup PYTHON=${others:-/path/to/python3.12}")
  elif ! "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then
    lacks+=("the module venv of '$PYTHON' (Debian and Ubuntu: apt-get install python3-venv)")
  else
    pip=$("$PYTHON" -c 'import ensurepip, glob, os
print([*glob.glob(os.path.dirname(ensurepip.__file__) + "/_bundled/pip-*.whl"), *glob.glob("/usr/share/python-wheels/pip-*.whl")][0])')
    torch=$(pin torch)
    "$PYTHON" "$pip/pip" --disable-pip-version-check --retries 0 --timeout 5 index versions torch 2>&1 | grep -F "${torch#torch==}" >/dev/null ||
      lacks+=("$torch in pip's package index. Look at the network and at PIP_INDEX_URL: '$PYTHON -m pip index versions torch'")
  fi
  command -v gcc >/dev/null || lacks+=("gcc (Debian and Ubuntu: apt-get install gcc)")
  needed=2; [ ! -e /dev/nvidiactl ] || needed=8 # GB of a CPU and of a CUDA build of torch
  free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1e6) }')
  [ "$free" -ge "$needed" ] || lacks+=("$needed GB of free disk in $PWD, but there are $free")
  for tool in g++ cmake make; do
    [ "$HOROVOD" = off ] || command -v "$tool" >/dev/null || [ "$HOROVOD" != require ] || lacks+=("$tool for Horovod (Debian and Ubuntu: apt-get install g++ cmake make)")
  done
  if [ ${#lacks[@]} -gt 0 ]; then
    printf '[setup] missing: %s\n' "${lacks[@]}" >&2
    fail "setup needs what is listed above. Then: make setup"
  fi
  [ "$HOROVOD" = off ] || absent=$(for tool in g++ cmake make; do command -v "$tool" >/dev/null || echo "$tool"; done)
  [ -z "${absent:-}" ] || say "missing:" $absent "(Debian and Ubuntu: apt-get install g++ cmake make). Without them Horovod is not built, and runs use trainer.collective=torch"
  say "1/5 environment in $VENV from $("$PYTHON" -V)"
  "$PYTHON" -m venv --clear "$VENV" || fail "'$PYTHON -m venv' does not work. Debian and Ubuntu: apt-get install python3-venv"
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
  say "5/5 $want from its sources (2 to 5 min with $JOBS jobs on two cores, cached in $CACHE)"
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
