#!/usr/bin/env bash
# usage: first_contact.sh FOLDER [CHECK…]
#
# First run on a machine with accelerators: every check of tools/first_contact.py, or the named ones. One call takes at most
# SECONDS_A_CALL (570); the next call continues behind it. Everything is written under FOLDER; FOLDER/table.md is the table.
set -euo pipefail
out=$(realpath -m "${1:?folder for the results}")
shift
cd "$(dirname "$0")/.."
PY=${PY:-.venv/bin/python}
[ -x "$PY" ] || PY=python3
exec "$PY" -m tools.first_contact "$out" "$@"
