#!/usr/bin/env bash
# Build xhpl with HPL's detailed timers from a source archive: netlib's hpl-2.3.tar.gz, or hpcc_1.5.0.orig.tar.gz of Debian's source
# package hpcc (`apt-get source --download-only hpcc`).
#
#     tools/build_hpl.sh SOURCE PROGRAM
#
# Uses mpicc and OpenBLAS. Other libraries: BLAS="-lmkl_rt" CFLAGS="-O3 -march=native".
set -euo pipefail
if [ $# -ne 2 ]; then
  echo "usage: tools/build_hpl.sh SOURCE PROGRAM; SOURCE is hpl-2.3.tar.gz or hpcc_1.5.0.orig.tar.gz" >&2
  exit 2
fi
command -v mpicc >/dev/null || { echo "mpicc is missing: apt-get install libopenmpi-dev" >&2; exit 2; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
tar -xzf "$1" -C "$work" --strip-components=1
root="$work"
extra=()
if [ -f "$work/hpl/testing/ptest/HPL_pddriver.c" ]; then # hpcc: its hpl/ is a library and has another input file
  root="$work/hpl"
  sed -i -e 's/"hpccinf\.txt"/"HPL.dat"/' -e '/fid = 8;/d' -e '/"hpccoutf\.txt"/d' "$root/testing/ptest/HPL_pdinfo.c"
  cat >"$root/testing/ptest/main.c" <<'C'
#include "hpl.h"
int HPCC_Defaults() { MPI_Abort(MPI_COMM_WORLD, 1); return 1; } /* HPL.dat could not be read */
int main(int argc, char **argv) {
  HPL_RuntimeData data; int failed = 0; data.Gflops = -1.0;
  MPI_Init(&argc, &argv); HPL_main(argc, argv, &data, &failed); MPI_Finalize(); return failed;
}
C
  extra=(-I"$work/include" -DHPL_NO_MPI_DATATYPE)
fi
mapfile -t sources < <(find "$root/src" "$root/testing" -name '*.c')
if [ ! -f "$root/testing/ptest/HPL_pddriver.c" ]; then
  echo "$1 contains no HPL_pddriver.c: pass hpl-2.3.tar.gz or hpcc_1.5.0.orig.tar.gz" >&2
  exit 2
fi
# shellcheck disable=SC2086  # several flags
mpicc ${CFLAGS:--O3 -march=native} -w -DHPL_CALL_CBLAS -DHPL_DETAILED_TIMING -DAdd_ -DF77_INTEGER=int -DStringSunStyle "${extra[@]}" \
  -I"$root/include" -I"$(dirname "$(find /usr/include -name cblas.h | head -1)")" "${sources[@]}" -o "$2" ${BLAS:--lopenblas} -lm
echo "built $2"
