#!/bin/sh
# two_files.sh SOURCE CC HEADERS LIBRARY: scripts/amalgamate.sh writes the core library as two files, the same ones each time. The example
# examples/two_files trains with them 20 steps, to the loss and the checksum of the library. The compiler prints nothing: not about the
# header, and not about tapehead.c, which it accepts for 32-bit processors too. To save time the test compiles one instruction set with -Os, and leaves parts out.
# (scripts/platforms/two_files.sh compiles everything, with each compiler.)
set -eu
source=$1 cc=$2 headers=$3 library=$4
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    printf '%s\n' "$*"
    exit 1
}

echo "== the same files each time"
"$source/scripts/amalgamate.sh" "$work" 2>"$work/said"
"$source/scripts/amalgamate.sh" "$work/again" 2>"$work/said"
for file in tapehead.h tapehead.c; do
    cmp "$work/$file" "$work/again/$file"
    head -n 1 "$work/$file"
    ! grep -F "$source" "$work/$file" || fail "$file has the path of the checkout"
done

echo "== examples/two_files"
# AVX2 has the bits of the library with AVX-512.
options="-Os -DTAPEHEAD_NO_EXPORT -DTAPEHEAD_NO_CHECKER -DTAPEHEAD_NO_FLOAT64 -DTAPEHEAD_NO_STORAGE_TYPES -DTAPEHEAD_NO_PRECISIONS"
if [ "$(uname -m)" = x86_64 ]; then
    fused=$(sed -n '/^flags.* avx2 /p; /^flags/q' /proc/cpuinfo)
    case "${fused:+yes} ${BUILT_ISAS-avx2}" in
    yes*avx*) options="$options -DTAPEHEAD_NO_BASELINE -DTAPEHEAD_NO_AVX512" ;;
    *) options="$options -DTAPEHEAD_NATIVE" ;;
    esac
fi
cp "$source/examples/two_files/app.c" "$source/tests/package/left_out.c" "$work/"
# shellcheck disable=SC2086 # words
"$cc" $options -c "$work/tapehead.c" -o "$work/tapehead.o" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
[ ! -s "$work/said" ] || fail "the compiler prints $(head -n 20 "$work/said")"
"$cc" -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$work/app.c" "$work/tapehead.o" -o "$work/app" -lm -lpthread
# shellcheck disable=SC2086 # words
"$cc" $options -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$work/left_out.c" "$work/tapehead.o" -o "$work/left_out" -lm -lpthread
"$work/app" 20 >"$work/trained"
"$work/left_out" >>"$work/trained" || fail "$(cat "$work/trained")"
cat "$work/trained"

# (Debian has the kernel's headers for -m32 in gcc-multilib, which excludes cross compilers. They are the same files.)
small="-m32 -idirafter /usr/include/$("$cc" -print-multiarch 2>"$work/said" || echo none)"
# shellcheck disable=SC2086 # words
if printf '#include <errno.h>\nint main(void) { return errno; }\n' | "$cc" $small -x c - -o "$work/small" 2>"$work/said"; then
    echo "== 32 bits"
    "$cc" $small -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only "$work/tapehead.c"
else
    echo "not tested: the compiler builds nothing for 32 bits (gcc-12-multilib has the files)"
fi

printf '#include <tapehead/tapehead.h>\n' >"$work/tapehead.h"
"$cc" -I"$headers" "$work/app.c" "$library" "-Wl,-rpath,$(dirname "$library")" -o "$work/of_library" -lm
# shellcheck disable=SC2086 # words
"$cc" $options -DOF_LIBRARY -I"$headers" "$work/left_out.c" "$library" "-Wl,-rpath,$(dirname "$library")" -o "$work/left_out" -lm
{ "$work/of_library" 20 && "$work/left_out"; } | diff "$work/trained" - || fail "the library (>) trains to other numbers"
