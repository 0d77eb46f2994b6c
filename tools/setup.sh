#!/usr/bin/env bash
# Create the environment of this project in .venv. A second call only does what is missing. Called by `make setup`. Errors and
# their fixes: docs/setup.md.
#
#   PYTHON       interpreter for the environment: 3.11, 3.12, 3.13 or newer
#   DEVICE       build of torch: cpu, cuda, rocm, or auto (the device of this machine). The choice is kept in .venv/.device
#   TORCH_INDEX  package index of torch's builds (default: PyTorch's for cpu and rocm, pip's for cuda)
#   WITH         run: what a run needs. dev: tests and linters too
#   JOBS         parallel compilers of Horovod's build (default: 2)
#   HOROVOD      auto: build it, or print the reason and continue without it. require: stop if it cannot be built. off: skip it
#   INSTALLER    auto: uv, or pip if uv cannot be used. pip: pip
set -euo pipefail
cd "$(dirname "$0")/.."
[[ "$OSTYPE" = linux* ]] || { echo "[setup] failed: AIPerf needs Linux, but this is $OSTYPE. Use a Linux machine, a container (Dockerfile) or WSL 2" >&2; exit 1; }
PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-auto}
WITH=${WITH:-run}
JOBS=${JOBS:-2}
HOROVOD=${HOROVOD:-auto}
INSTALLER=${INSTALLER:-auto}
VENV=.venv
PY=$VENV/bin/python
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/aiperf/wheels
LOG=$VENV/setup.log
PYTORCH=https://download.pytorch.org/whl

started=$(date +%s)
say() { printf '[setup %3d s] %s\n' $(($(date +%s) - started)) "$*"; }
fail() { printf '[setup] failed: %s\n' "$*" >&2; exit 1; }
build='' beat=''
end() {
  [ -z "$beat" ] || kill "$beat" 2>/dev/null || true
  [ -z "$build" ] || kill -- "-$build" 2>/dev/null || true # a group of its own
}
trap end EXIT
spoken() { # run a step, print a line each 7 s that it takes, and return its status
  local status=0
  while sleep 7 >/dev/null 2>&1; do say "      $step continues"; done &
  beat=$!
  "$@" || status=$?
  kill "$beat" && wait "$beat" 2>/dev/null || true
  beat=''
  return $status
}
to_log() { "$@" >>"$LOG" 2>&1; }
in_log() { spoken to_log "$@"; }
quietly() { # run a step with its output in the log, and print the end of the log if it fails
  if ! in_log "$@"; then
    tail -n 25 "$LOG" >&2
    fail "the step above failed: $*. Complete log: $LOG"
  fi
}
pin() { # print NAME==VERSION from constraints.txt
  grep -iE "^$1==" constraints.txt || fail "constraints.txt must pin every package of a CPU build, but it has no version of '$1': add it"
}

choose_device() {
  local generic
  case $DEVICE in
    cpu | cuda | rocm) device=$DEVICE ;;
    auto)
      if [ -s "$VENV/.device" ]; then device=$(<"$VENV/.device")
      elif [ -e /dev/nvidiactl ]; then device=cuda
      elif [ -e /dev/kfd ]; then device=rocm
      # without a cluster that answers, Slurm's commands are only installed
      elif command -v sinfo >/dev/null && generic=$(timeout 10 sinfo --noheader --format=%G 2>/dev/null); then
        fail "DEVICE must be given on a login node, since its nodes share .venv. This machine has no accelerator, and Slurm names" \
          "these resources of its nodes: ${generic:-none}. Choose one: make setup DEVICE=cuda (or rocm, cpu)"
      else device=cpu; fi ;;
    *) fail "DEVICE must be auto, cpu, cuda or rocm, but is '$DEVICE': make setup DEVICE=auto" ;;
  esac
}

# A half environment (its making was stopped) has no pip, and is made anew.
is_made() { [ -x "$PY" ] && "$PY" -m pip --version >/dev/null 2>&1; }
torch=$(pin torch)
version=${torch#torch==}
pip=()
torch_versions() { "${pip[@]}" --disable-pip-version-check --retries 0 --timeout 5 index versions torch "$@" 2>&1 || true; }
choose_torch() { # offered: versions in the index. requirement: the build for the device. torch_index: arguments of an index beside pip's
  local kind index=${TORCH_INDEX:-} found
  torch_index=()
  offered=$(torch_versions ${index:+--extra-index-url "$index"})
  case $device in cpu) kind='\+cpu' ;; cuda) kind='\+cu[0-9]+' ;; rocm) kind='\+rocm[0-9.]+' ;; esac
  found=$(grep -oE "${version//./\\.}$kind" <<<"$offered" | head -n 1 || true)
  if [ -z "$found$index" ] && [ "$device" != cuda ]; then
    if [ "$device" = cpu ]; then index=$PYTORCH/cpu
    elif [ -r /opt/rocm/.info/version ]; then index=$PYTORCH/rocm$(cut -d. -f1,2 /opt/rocm/.info/version); fi
    [ -z "$index" ] || found=$(torch_versions --extra-index-url "$index" | grep -oE "${version//./\\.}$kind" | head -n 1 || true)
    if [ -n "$found" ]; then offered+=" $found"; else remark="$torch for DEVICE=$device is not in the index '$index'"; index=''; fi
  fi
  [ -z "$index" ] || torch_index=("$index")
  # pip and uv prefer a build with a local version, such as +cpu
  requirement=${found:+torch==$found}
  [ -n "$found" ] || requirement="$torch,!=$version+cpu"
}

choose_device
remark=''
say "looking at this machine and at pip's package index"
if is_made; then
  pip=("$PY" -m pip)
  choose_torch
else
  # All that is missing is told at once, before the first download.
  lacks=()
  if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    others=$(command -v python3.13 || command -v python3.12 || command -v python3.11 || true)
    lacks+=("Python 3.11, 3.12 or 3.13, but '$PYTHON' is $("$PYTHON" -V 2>&1 || true): make setup PYTHON=${others:-/path/to/python3.12}")
  elif ! "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then
    lacks+=("the module venv of '$PYTHON' (Debian and Ubuntu: apt-get install python3-venv)")
  else
    wheel=$("$PYTHON" -c 'import ensurepip, glob, os
print([*glob.glob(os.path.dirname(ensurepip.__file__) + "/_bundled/pip-*.whl"), *glob.glob("/usr/share/python-wheels/pip-*.whl")][0])')
    pip=("$PYTHON" "$wheel/pip")
    choose_torch
    grep -F "$version" <<<"$offered" >/dev/null ||
      lacks+=("$torch in pip's package index. Look at the network and at PIP_INDEX_URL: '$PYTHON -m pip index versions torch'")
  fi
  command -v gcc >/dev/null || lacks+=("gcc (Debian and Ubuntu: apt-get install gcc)")
  needed=3; [[ "$device" = cpu && -z "$remark" ]] || needed=9 # GB of a CPU and of a CUDA build of torch
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
  say "1/5 environment in $VENV from $("$PYTHON" -V), DEVICE=$device"
  step="the environment"
  spoken "$PYTHON" -m venv --clear "$VENV" || fail "'$PYTHON -m venv' does not work. Debian and Ubuntu: apt-get install python3-venv"
fi
: >"$LOG"
if [ "$device" = rocm ] && [ -n "$remark" ]; then
  fail "$remark. Choose the index of your ROCm release: make setup DEVICE=rocm TORCH_INDEX=$PYTORCH/rocm…"
fi
[ -z "$remark" ] || say "$remark, or it does not answer: the default build comes instead, with packages of CUDA"
# constraints-cuda.txt pins the packages of the default CUDA build (nvidia-*, cuda-*, triton). Another index may have a build for
# another CUDA release, whose packages have other versions.
pins=(--constraint constraints.txt)
[[ "$requirement" = *"!="* ]] && pins+=(--constraint constraints-cuda.txt)
extra=''; [ "$WITH" = run ] || extra=dev
tools=(numpy setuptools wheel packaging psutil cloudpickle pyyaml cffi) # of Horovod's build, and what torch warns about without it

pip_install() { quietly "$PY" -m pip install --disable-pip-version-check "${pins[@]}" ${torch_index[0]:+--extra-index-url "${torch_index[0]}"} "$@"; }
uv() { "$PY" tools/installer.py uv "$@" ${torch_index[0]:+--index "${torch_index[0]}"}; }
step="looking for the versions"
if [ "$INSTALLER" = auto ]; then
  if ! in_log "$PY" -m pip install --disable-pip-version-check --retries 1 --constraint constraints.txt uv; then
    INSTALLER=pip
    say "uv is not in pip's package index: pip installs, which takes longer"
  else
    printf '%s\n' "$requirement" "${tools[@]}" >"$VENV/tools.in"
    if ! in_log uv compile "${pins[@]}" --quiet --format pylock.toml --output-file "$VENV/pylock.toml" pyproject.toml ${extra:+--extra "$extra"} "$VENV/tools.in"; then
      INSTALLER=pip
      say "uv found no versions: pip installs, which takes longer. Reason: $(grep -vE '^ *$' "$LOG" | tail -n 1)"
    fi
  fi
fi
if [ "$INSTALLER" = pip ]; then
  install() { pip_install "$@"; }
  say "2/5 $requirement. Downloads: about 70 files and 0.5 GB for a run on a CPU build, 2.9 GB with CUDA, 80 files and 0.3 GB for the tests"
else
  install() { quietly uv install "${pins[@]}" --compile-bytecode "$@"; }
  say "2/5 $requirement. Downloads, less what uv's cache has: $("$PY" tools/installer.py downloads "$VENV/pylock.toml")"
fi
# torch first: Horovod's build needs it
step="installation of torch"
install "$requirement" "${tools[@]}"
check_torch() { "$PY" tools/torch_build.py >"$VENV/torch.note" 2>>"$LOG"; }
step="check of torch"
spoken check_torch || fail "torch cannot be imported. See the end of $LOG"
[ ! -s "$VENV/torch.note" ] || say "$(<"$VENV/torch.note")"

want="$(pin horovod)"
horovod=skip
if [ "$HOROVOD" != off ]; then
  horovod=build
  # without the folder there is nothing to import
  ! compgen -G "$VENV/lib/python*/site-packages/horovod" >/dev/null || ! in_log "$PY" tools/horovod_plan.py --fits || horovod=fits
fi
if [ "$horovod" = build ]; then
  set -m
  bash tools/build_horovod.sh "$PY" "$want" "$CACHE" "$JOBS" wheel >"$VENV/horovod.log" 2>&1 &
  build=$!
  set +m
fi
say "3/5 the other packages, pinned by constraints.txt$([ "$horovod" != build ] || echo ". Beside it: the build of $want, 2 to 5 min with $JOBS jobs on two cores, cached in $CACHE")"
step="installation of the packages"
if [ "$INSTALLER" = pip ]; then
  install --editable ".${extra:+[$extra]}"
else
  quietly uv install --compile-bytecode --requirements "$VENV/pylock.toml"
  install --no-deps --no-build-isolation --editable .
fi

say "4/5 torchvision for this torch"
step="torchvision"
if ! in_log bash tools/torchvision_without_cuda.sh "$PY"; then
  lacks=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
  fail "torchvision cannot be imported with this torch. ${lacks:-The reason is at the end of $LOG.} Then: make setup"
fi

case $horovod in
  skip) say "5/5 Horovod skipped (HOROVOD=off): runs use trainer.collective=torch" ;;
  fits) say "5/5 $want is installed" ;;
  build)
    say "5/5 $want"
    step="the build of Horovod"
    built() { # wait for the wheel, then install it
      local status=0
      wait "$build" || status=$?
      build=''
      cat "$VENV/horovod.log"
      [ $status = 0 ] && bash tools/build_horovod.sh "$PY" "$want" "$CACHE" "$JOBS"
    }
    if ! in_log built; then
      reason=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
      reason=${reason:-"the build failed. See the end of $LOG: $(grep -iE 'error' "$LOG" | tail -n 1)"}
      [ "$HOROVOD" = require ] && fail "Horovod could not be built. $reason"
      say "Horovod could not be built. $reason"
      say "continuing without it: trainer.collective=auto uses torch's DistributedDataParallel, and every report names it"
    fi ;;
esac
step="compiling"
in_log "$PY" -m compileall -q aiperf morphism searchers cluster || true
echo "$device" >"$VENV/.device"
python=python; [ "$(command -v python || true)" = "$PWD/$PY" ] || python=$PY
say "done, $(du -sm "$VENV" | cut -f1) MB in $VENV. A run of 3 min: $python -m aiperf"
