#!/usr/bin/env bash
# usage: build_horovod.sh PYTHON CACHE JOBS
#
# Build Horovod of requirements/horovod.txt for PyTorch and install it into PYTHON's environment, which has what requirements/run.txt names.
# The wheel is kept in CACHE under a key from tools/horovod_plan.py. Gloo is always built, NCCL if it and CUDA's compiler are found. Horovod 0.28.1 compiles with C++14, but the
# headers of PyTorch 2.1 and later need C++17. So the compiler is wrapped, and the sources are not patched. A line "missing: …"
# names what the machine lacks.
set -euo pipefail
PY=${1:?python} CACHE=${2:?cache} JOBS=${3:-2}
cd "$(dirname "$0")/.."
need() { for tool in "$@"; do command -v "$tool" >/dev/null || { echo "missing: $tool (Debian and Ubuntu: apt-get install g++ cmake make. Then: make setup)"; exit 1; }; done; }
need g++ # its version is a part of the key

# key, operations, nccl_links, note: what is built, and the folder of its wheel in the cache
assignments=$("$PY" tools/horovod_plan.py)
eval "$assignments"
[ -z "$note" ] || echo "note: $note: this Horovod exchanges gradients over Gloo"
kept=$CACHE/$key
version=$(sed -nE 's/^horovod==([^ ]+).*/\1/p' requirements/horovod.txt)
if ls "$kept"/horovod-"$version"-*.whl >/dev/null 2>&1; then
  echo "using the cached wheel in $kept"
else
  need cmake make
  header=$("$PY" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h
  [ -f "$header" ] || { echo "missing: Python's headers, $header (Debian and Ubuntu: apt-get install python3-dev. Then: make setup)"; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cat >"$work/c++" <<'C'
#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  case $argument in
    -std=c++14) argument=-std=c++17 ;;
    -g) continue ;; # no debug symbols: the library is ten times smaller
  esac
  arguments+=("$argument")
done
exec g++ "${arguments[@]}"
C
  chmod +x "$work/c++"
  mkdir -p "$kept"
  if [ -n "$nccl_links" ]; then # torch's own NCCL has only libnccl.so.2, but the linker needs libnccl.so
    mkdir -p "$work/nccl/lib"
    ln -s "$nccl_links/include" "$work/nccl/include"
    ln -s "$nccl_links/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so"
    ln -s "$nccl_links/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so.2"
    operations+=("HOROVOD_NCCL_HOME=$work/nccl")
  fi
  # Build isolation would hide torch from Horovod's setup.py. CMake 4 refuses the old policy version of Horovod's third_party/gloo. pip's own cache does not tell a wheel without CUDA from
  # one with it.
  env CMAKE_POLICY_VERSION_MINIMUM=3.5 CXX="$work/c++" MAKEFLAGS="-j$JOBS" HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
    HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 "${operations[@]}" \
    "$PY" -m pip wheel --disable-pip-version-check --no-cache-dir --no-build-isolation --no-deps --no-binary horovod --require-hashes --wheel-dir "$kept" -r requirements/horovod.txt
fi
"$PY" -m pip install --disable-pip-version-check --no-deps --no-index "$kept"/horovod-"$version"-*.whl
"$PY" tools/horovod_plan.py --fits || { echo "the installed Horovod lacks parts that were built ($key)"; exit 1; }
