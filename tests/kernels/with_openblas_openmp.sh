#!/bin/sh
# with_openblas_openmp.sh PROGRAM: runs a test with OpenBLAS's OpenMP build of Debian's package libopenblas0-openmp. If the package is
# not installed, prints that and exits with 77.
set -eu
for library in "${OPENBLAS_OPENMP:-/usr/lib}"/*/openblas-openmp/libopenblas.so.0; do
    if [ -e "$library" ]; then
        LD_LIBRARY_PATH=$(dirname "$library")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$1"
    fi
done
echo "skipped: OpenBLAS's OpenMP build is not installed (Debian: libopenblas0-openmp)"
exit 77
