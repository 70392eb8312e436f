#!/bin/sh
# with_isa.sh PROGRAM [ARGUMENT...]: runs a test with the instruction set TAPEHEAD_ISA. If this processor or the build (BUILT_ISAS) does
# not have it, prints that and exits with 77, which ctest reports as skipped.
set -eu

case ${TAPEHEAD_ISA:-} in
avx2) needed="avx2 fma" ;;
avx512) needed="avx2 fma avx512f avx512bw avx512dq avx512vl" ;;
*) needed= ;;
esac
for flag in $needed; do
    if ! grep -q "^flags.* $flag\b" /proc/cpuinfo; then
        echo "skipped: this processor has no $flag, which TAPEHEAD_ISA=$TAPEHEAD_ISA needs"
        exit 77
    fi
done
if [ -n "${TAPEHEAD_ISA:-}" ] && [ -n "${BUILT_ISAS:-}" ]; then
    case " $BUILT_ISAS " in
    *" $TAPEHEAD_ISA "*) ;;
    *)
        echo "skipped: this build has no $TAPEHEAD_ISA (TAPEHEAD_ISAS)"
        exit 77
        ;;
    esac
fi
exec "$@"
