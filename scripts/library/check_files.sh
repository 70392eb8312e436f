# check_files.sh: sourced by amalgamate.sh. write_check_files OUT writes tapehead_check.h and tapehead_check.c to the folder OUT.

headers="src/kernels/dtype.h src/kernels/sizes.h src/tensor/format.h src/tensor/splitmix.h src/tensor/half.h
    src/checker/engine/limits.h src/checker/engine/engine.h src/checker/engine/quotients.h src/checker/engine/verdict.h
    src/checker/engine/report.h src/checker/engine/search.h src/checker/function/function.h"
sources="src/kernels/dtype.c src/tensor/format.c src/checker/engine/*.c src/checker/function/*.c"

# Joins files. It leaves out what one file needs once: system headers, and in the source guards, empty lines and the first comment of a file.
# It also leaves out the sections that the checker does not need. A section starts with a comment "/* -- NAME --" and ends at
# the next one, or at the end of its header.
join() {
    awk -v source="$source" '
        FNR == 1 { print "/* ---- " FILENAME " ---- */"; skip = depth = 0; first = source }
        source && /^$/ { next }
        first { first = !/\*\/$/; next }
        source && /^#(ifndef|define) TH_[A-Z_]*_H$/ { next }
        /^\/\* -- / { skip = $0 ~ /^\/\* -- (other lists|source locations|precision of products|kinds of types|division of work|files and paths|experiment) --/; inner = depth }
        /^#if/ { depth++ }
        /^#endif/ { depth--; if (skip && depth < inner) skip = 0; if (source && depth < 0) next }
        /^TH_END_DECLS/ { skip = 0 }
        skip || /^#include "/ || (/^#include/ && seen[$0]++) { next }
        { sub(/TH_PRIVATE_API /, ""); print }' "$@" | cat -s
}
write_check_files() {
    source=0
    {
        echo "/* Tapehead's checker of gradients of plain functions. Made by scripts/amalgamate.sh. */"
        join include/tapehead/base.h include/tapehead/gradient_report.h include/tapehead/check_function.h
    } >"$1/tapehead_check.h"
    source=1
    {
        cat <<'END'
/* Tapehead's checker of gradients of plain functions. Made by scripts/amalgamate.sh. */
#ifndef TH_NO_POSIX
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#endif
#ifdef __cplusplus /* this file is C99; these compilers take it as C++17, too */
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wc++20-designator"
#pragma GCC diagnostic ignored "-Wc99-designator"
#pragma GCC diagnostic ignored "-Wc99-extensions"
#endif
#pragma GCC diagnostic ignored "-Wc++20-extensions"
#endif
#include "tapehead_check.h"
END
        # shellcheck disable=SC2086 # lists of words
        join $headers $sources
    } >"$1/tapehead_check.c"
}
