#!/usr/bin/env bash
# Files of a release in dist/: sdist, wheel, image, bill of materials, provenance and checksums. Called by `make release`, also from a tag
# in CI. The tools come from pip's index into an environment of their own. It publishes nothing.
#
#   IMAGE  auto: the CPU image with podman or docker, or the reason why there is none. require: stop without it. off: skip it
#   BASE   its base (Dockerfile)
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf '[release] failed: %s\n' "$*" >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
[ -z "$(git status --porcelain)" ] || fail "a release is made from a commit, but this checkout has changes: commit or remove them"
grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
  fail "CHANGELOG.md has no heading '## [$version] - YYYY-MM-DD': give the entries under Unreleased this heading"
tag=$(git describe --tags --exact-match 2>/dev/null || true)
[ -z "$tag" ] || [ "$tag" = "v$version" ] || fail "the tag is v and the version in pyproject.toml, v$version, but is '$tag': set one of them"
[ ! -e dist ] || fail "dist/ is of an earlier release: move it"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet --disable-pip-version-check build cyclonedx-bom 'setuptools>=77' wheel
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
"$work/tools/bin/python" -m build --no-isolation --outdir dist . >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "python -m build"; }
cat requirements/{run,cpu,cuda}.txt >"$work/all.txt"
"$work/tools/bin/cyclonedx-py" requirements --pyproject pyproject.toml --output-reproducible --of JSON -o "dist/aiperf_cluster-$version.cdx.json" "$work/all.txt"
no_image() { [ "${IMAGE:-auto}" != require ] || fail "no image: $1"; echo "[release] no image: $1"; }
if [ "${IMAGE:-auto}" = off ]; then no_image "IMAGE=off"
elif ! builder=$(command -v podman || command -v docker); then no_image "neither podman nor docker is installed"
elif ! "$builder" build ${BASE:+--build-arg "BASE=$BASE"} -t "aiperf:$version" . >"$work/image" 2>&1; then no_image "$builder build failed: $(tail -n 1 "$work/image")"
else "$builder" save "aiperf:$version" | gzip -n >"dist/aiperf_cluster-$version-cpu.image.tar.gz"; fi
"$work/tools/bin/python" - "$version" "$tag" >dist/provenance.json <<'PYTHON'
import hashlib, json, os, pathlib, platform, subprocess, sys
files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path("dist").glob("aiperf*"))}
commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
built_by = os.environ.get("GITHUB_RUN_ID") and "GitHub run " + os.environ["GITHUB_RUN_ID"]
about = {"version": sys.argv[1], "tag": sys.argv[2] or None, "commit": commit, "python": platform.python_version()}
print(json.dumps(about | {"built_by": built_by or "by hand", "sha256": files}, indent=1))
PYTHON
(cd dist && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
printf '[release] %s:\n' "$version" && ls -l dist
