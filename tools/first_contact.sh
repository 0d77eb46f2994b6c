#!/usr/bin/env bash
# usage: first_contact.sh FOLDER [CHECK…]
#
# First run on a machine with accelerators: all checks of tools/first_contact.py, or the named ones. One call takes at most
# SECONDS_A_CALL (570) seconds, and the next call continues after its last check. All files are written to FOLDER. The table is
# FOLDER/table.md.
set -euo pipefail
out=$(realpath -m "${1:?folder for the results}")
shift
cd "$(dirname "$0")/.."
PY=${PY:-.venv/bin/python}
[ -x "$PY" ] || PY=python3
exec "$PY" -m tools.first_contact "$out" "$@"
