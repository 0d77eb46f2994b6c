#!/usr/bin/env bash
# Create the environment of this project in .venv from the lock, requirements/*.txt. A second call only does what is missing. Called by
# `make setup`. Errors and their fixes: docs/setup.md.
#
#   PYTHON       interpreter for the environment: 3.11, 3.12, 3.13 or newer
#   DEVICE       build of torch: cpu, cuda, rocm, or auto (the device of this machine). The choice is kept in .venv/.device
#   TORCH_INDEX  package index of torch's builds (default: PyTorch's for cpu and rocm, pip's for cuda)
#   WITH         run: what a run needs. dev: tests and linters too. wheels: put all wheels into the folder WHEELS, install nothing
#   WHEELS       folder of all wheels, from `make wheels`: no index is used
#   JOBS         parallel compilers of Horovod's build (default: 2)
#   HOROVOD      auto: build it, or print the reason and continue without it. require: stop if it cannot be built. off: skip it
#   INSTALLER    auto: uv, or pip if uv cannot be used. pip: pip
set -euo pipefail
cd "$(dirname "$0")/.."
[[ "$OSTYPE" = linux* ]] || { echo "[setup] failed: AIPerf needs Linux, but this is $OSTYPE. Use a Linux machine, a container (Dockerfile) or WSL 2" >&2; exit 1; }
PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-auto}
WITH=${WITH:-run}
WHEELS=${WHEELS:-}
JOBS=${JOBS:-2}
HOROVOD=${HOROVOD:-auto}
INSTALLER=${INSTALLER:-auto}
VENV=.venv
PY=$VENV/bin/python
CACHES=${XDG_CACHE_HOME:-$HOME/.cache}/aiperf
CACHE=$CACHES/wheels
LOG=$VENV/setup.log
PYTORCH=https://download.pytorch.org/whl

started=$(date +%s)
say() { printf '[setup %3d s] %s\n' $(($(date +%s) - started)) "$*"; }
fail() { printf '[setup] failed: %s\n' "$*" >&2; exit 1; }
build='' beat='' bundled=''
end() {
  rm -rf "$bundled"
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
pin() { # print NAME==VERSION from the lock
  grep -ohE "^$1==[0-9A-Za-z.]+" requirements/*.txt | head -n 1 | grep . || fail "the lock, requirements/*.txt, must have '$1', but it does not: make constraints"
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
if [ -n "$WHEELS" ] && [ "$WITH" != wheels ]; then
  [ -d "$WHEELS" ] || fail "WHEELS must be the folder that 'make wheels' filled, but '$WHEELS' is no folder"
  WHEELS=$(cd "$WHEELS" && pwd)
  export PIP_NO_INDEX=1 PIP_FIND_LINKS=$WHEELS
  [ ! -d "$WHEELS/horovod" ] || CACHE=$WHEELS/horovod
fi
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
step="looking at this machine and at pip's package index"
say "$step"
if is_made; then
  pip=("$PY" -m pip)
  spoken choose_torch
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
    bundled=$(mktemp -d) # unpacked, so that Python keeps its bytecode
    "$PYTHON" -m zipfile -e "$wheel" "$bundled"
    pip=("$PYTHON" "$bundled/pip")
    spoken choose_torch
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
  spoken "$PYTHON" -m venv --clear --without-pip "$VENV" || fail "'$PYTHON -m venv' does not work. Debian and Ubuntu: apt-get install python3-venv"
fi
: >"$LOG"
if [ "$device" = rocm ] && [ -n "$remark" ]; then
  fail "$remark. Choose the index of your ROCm release: make setup DEVICE=rocm TORCH_INDEX=$PYTORCH/rocm…"
fi
[ -z "$remark" ] || say "$remark, or it does not answer: the default build comes instead, with packages of CUDA"
# locks: files of the lock for this build. own: torch from an index that the lock does not know. local: what its version ends with
locks=(requirements/run.txt)
[ "$WITH" = run ] || locks+=(requirements/dev.txt)
own='' local=${requirement#torch=="$version"}
if [[ "$requirement" = *"!="* ]]; then local='' && locks+=(requirements/cuda.txt)
elif [ "$local" = +cpu ] && [ -z "${TORCH_INDEX:-}" ]; then locks+=(requirements/cpu.txt)
else own=$requirement; fi
listed=(); for file in "${locks[@]}"; do listed+=(-r "$file"); done
[ -z "$bundled" ] || pip=("$PY" "$bundled/pip")

if [ "$WITH" = wheels ]; then
  step="the download"
  download() { quietly "${pip[@]}" download --disable-pip-version-check --dest "$WHEELS" ${torch_index[0]:+--extra-index-url "${torch_index[0]}"} "$@"; }
  download --require-hashes --no-deps "${listed[@]}" -r requirements/horovod.txt
  [ -z "$own" ] || download --find-links "$WHEELS" "$own" "$(pin torchvision)"
  [ ! -d "$CACHE" ] || { mkdir -p "$WHEELS/horovod" && cp -r "$CACHE/." "$WHEELS/horovod"; }
  say "done, $(du -sm "$WHEELS" | cut -f1) MB in $WHEELS. There: make setup DEVICE=$device WHEELS=FOLDER"
  exit
fi
uv() { PYTHONPATH=$bundled "$PY" tools/installer.py uv "$@" ${torch_index[0]:+--index "${torch_index[0]}"}; }
step="looking for the files"
if [ "$INSTALLER" = auto ]; then
  sed -nE '/^uv==/,/[^\\]$/p' requirements/run.txt >"$VENV/uv.txt"
  if ! in_log "${pip[@]}" install --disable-pip-version-check --retries 1 --no-deps --require-hashes -r "$VENV/uv.txt"; then
    INSTALLER=pip
    say "uv is not in pip's package index: pip installs, which takes longer"
  elif ! in_log uv compile --no-deps --quiet --format pylock.toml --output-file "$VENV/pylock.toml" "${locks[@]}"; then
    INSTALLER=pip
    say "uv found no files: pip installs, which takes longer. Reason: $(grep -vE '^ *$' "$LOG" | tail -n 1)"
  fi
fi
if [ "$INSTALLER" = pip ]; then
  install() { quietly "${pip[@]}" install --disable-pip-version-check --no-compile ${torch_index[0]:+--extra-index-url "${torch_index[0]}"} "$@"; }
  say "2/5 ${requirement%%,*} and the other packages of the lock. Downloads: about 70 files and 0.5 GB for a run on a CPU build, 2.9 GB with CUDA, 80 files and 0.3 GB for the tests"
else
  install() { quietly uv install "$@"; }
  say "2/5 ${requirement%%,*} and the other packages of the lock. Downloads, less what uv's cache has: $("$PY" tools/installer.py downloads "$VENV/pylock.toml")"
fi
[ -z "$own" ] || say "$own is of an index that the lock does not know: its files are not compared with hashes"
step="installation of the packages"
# +cpu fits ==2.13.0 too
site=$(echo "$VENV"/lib/python*/site-packages)
compgen -G "$site/torch-$version$local.dist-info" >/dev/null || ! compgen -G "$site/torch-*.dist-info" >/dev/null || quietly "${pip[@]}" uninstall -y torch
install --require-hashes --no-deps "${listed[@]}"
if [ -n "$own" ]; then # its index may have a torchvision too
  quietly "${pip[@]}" uninstall -y torchvision
  install "$own" "$(pin torchvision)"
fi

want="$(pin horovod)"
horovod=skip
if [ "$HOROVOD" != off ]; then
  horovod=build
  # without the folder there is nothing to import
  ! [ -d "$site/horovod" ] || ! in_log "$PY" tools/horovod_plan.py --fits || horovod=fits
fi
if [ "$horovod" = build ]; then
  set -m
  bash tools/build_horovod.sh "$PY" "$CACHE" "$JOBS" >"$VENV/horovod.log" 2>&1 &
  build=$!
  set +m
fi
say "3/5 this project, and torchvision for this torch$([ "$horovod" != build ] || echo ". Beside it: the build of $want, 2 to 5 min with $JOBS jobs on two cores, kept in $CACHE")"
step="installation of the project"
install --no-deps --no-build-isolation --editable .
step="torchvision"
check_torch() { "$PY" tools/torch_build.py >"$VENV/torch.note"; }
if ! in_log bash tools/torchvision_without_cuda.sh "$PY" || ! in_log check_torch; then
  lacks=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
  fail "torch or torchvision cannot be imported. ${lacks:-The reason is at the end of $LOG.} Then: make setup"
fi
[ ! -s "$VENV/torch.note" ] || say "$(<"$VENV/torch.note")"

# bytecode of the packages' own tests would be 0.1 GB
say "4/5 bytecode"
step="compiling"
# Kept from an earlier environment of the same lock. Python ignores what does not belong to its source.
kept=$CACHES/bytecode/$(basename "$(dirname "$site")")-$(cat "${locks[@]}" | cksum | cut -d' ' -f1)
[ ! -d "$kept" ] || cp -rln "$kept/." "$site" 2>>"$LOG" || true
in_log "$PY" -m compileall -q -j 2 -x '/tests?/' "$site" aiperf morphism searchers cluster || true
if [ "$WITH" = run ] && ! [ -d "$kept" ]; then # links: no space while .venv exists
  rm -rf "${kept%-*}"-*
  { mkdir -p "$kept" && (cd "$site" && find . -name __pycache__ -print0 | xargs -0 cp -rl --parents -t "$kept"); } 2>>"$LOG" || rm -rf "$kept"
fi

case $horovod in
  skip) say "5/5 Horovod skipped (HOROVOD=off): runs use trainer.collective=torch" ;;
  fits) say "5/5 $want is installed" ;;
  build)
    say "5/5 $want"
    step="the build of Horovod"
    built() {
      local status=0
      wait "$build" || status=$?
      build=''
      cat "$VENV/horovod.log"
      return $status
    }
    if ! in_log built; then
      reason=$(grep -E '^missing:' "$LOG" | tail -n 1 || true)
      reason=${reason:-"the build failed. See the end of $LOG: $(grep -iE 'error' "$LOG" | tail -n 1)"}
      [ "$HOROVOD" = require ] && fail "Horovod could not be built. $reason"
      say "Horovod could not be built. $reason"
      say "continuing without it: trainer.collective=auto uses torch's DistributedDataParallel, and every report names it"
    fi ;;
esac
echo "$device" >"$VENV/.device"
python=python; [ "$(command -v python || true)" = "$PWD/$PY" ] || python=$PY
say "done, $(du -sm "$VENV" | cut -f1) MB in $VENV. A run of 3 min: $python -m aiperf"
