#!/usr/bin/env bash
# usage: lock.sh [PACKAGE…]
#
# Write requirements/*.txt: exact versions with the hashes of their files, for Linux and Python 3.11 to 3.14. Called by `make constraints`.
# uv of .venv asks the package index of pip's configuration, without its extra indexes and folders of wheels, which have a part of the
# files. Versions in the files stay, except those of the named PACKAGEs.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/uv ] || { echo "the lock is written with .venv/bin/uv, but it does not exist: make setup" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # NAME WORDS…: resolve into $work/NAME
  .venv/bin/python tools/installer.py lock compile --universal --generate-hashes --no-annotate --no-header --quiet --output-file "$work/$1" "${@:2}" >/dev/null
}
names() { sed -nE 's/^([A-Za-z0-9._-]+)==.*/\1/p' "$@"; }
without() { # NAMES FILE: the entries of FILE whose names are not in NAMES
  awk 'NR == FNR { listed[$1]; next } /^[^ ]/ { split($0, part, "=="); shown = !(part[1] in listed) } shown' <(echo "$1") "$2"
}
write() { # NAME TEXT: requirements/NAME.txt from the standard input
  { echo "# $2. Written by make constraints."; sed "s/ ; $everywhere//"; } >"$work/new"
  mv "$work/new" "requirements/$1.txt"
  echo "requirements/$1.txt: $(names "requirements/$1.txt" | wc -l) packages"
}

# All together first, so that a package has one version
cat requirements/*.txt | grep -oE '^[A-Za-z0-9._-]+==[^ +]+' | sed s/===/==/ | sort -u >"$work/all"
upgrades=()
for name in "$@"; do upgrades+=(--upgrade-package "$name"); done
compile all --extra dev --extra horovod --group setup --group image --group read "${upgrades[@]}" pyproject.toml
sed -E '/^ /d; s/ *\\$//' "$work/all" >"$work/pins"
pinned=(--constraints "$work/pins")
compile run "${pinned[@]}" --group setup pyproject.toml
compile dev "${pinned[@]}" --extra dev pyproject.toml
compile image "${pinned[@]}" --group image
compile read "${pinned[@]}" --group read
grep '^horovod==' "$work/pins" >"$work/horovod.in"
compile horovod --no-deps "$work/horovod.in"
of_cuda=$(names "$work/run" | grep -E '^(torch|triton|cuda-.*|nvidia-.*)$' | grep -v nvidia-ml-py)
everywhere=$(sed -nE 's/^torch==.* ; (.*) \\/\1/p' "$work/run") # what environments of pyproject.toml says
# PyTorch's index has builds for processors alone. Their hashes stay if it does not answer and torch has the same version.
torch="$(grep -oE '^torch==[0-9.]+' "$work/pins")+cpu"
echo "$torch" >"$work/torch.in"
if ! compile torch --no-deps --index https://download.pytorch.org/whl/cpu "$work/torch.in" 2>"$work/why"; then
  grep -qF "$torch " requirements/cpu.txt || { cat "$work/why" >&2; echo "requirements/cpu.txt lacks the hashes of $torch: repeat with access to PyTorch's index" >&2; exit 1; }
  echo "PyTorch's index does not answer: the hashes of $torch stay"
  sed -nE '/^torch==/,$p' requirements/cpu.txt >"$work/torch"
fi
write cpu "Build of torch for processors, in addition to run.txt" <"$work/torch"
# === leaves out builds with a local version, such as +cpu
without "$(names "$work/run" | grep -vxF "$of_cuda")" "$work/run" | sed 's/^torch==/&=/' | write cuda "Build of torch for CUDA with its packages, in addition to run.txt"
without "$of_cuda" "$work/run" | write run "What a run needs beside torch"
without "$(names "$work/run")" "$work/dev" | write dev "Tests and linters, in addition to run.txt"
without "$(names "$work/run")" "$work/image" | write image "Image for Kubernetes: Ray's dashboard and the API's client, in addition to run.txt"
write read "Reading journals without Ray and torch (docs/setup.md, Reading journals)" <"$work/read"
write horovod "Horovod's sources" <"$work/horovod"
