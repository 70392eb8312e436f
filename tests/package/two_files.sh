#!/bin/sh
# two_files.sh SOURCE CC HEADERS LIBRARY [MODELS_LIBRARY]: scripts/amalgamate.sh writes the core library, or both libraries, as two files, the
# same ones each time. The examples of examples/two_files train with the files of both, and write the numbers of the library. The compiler
# prints nothing: not about the header, and not about tapehead.c, which it accepts for 32-bit processors too. To save time the test compiles one
# instruction set with -Os, and leaves parts out; without MODELS_LIBRARY also the second library.
# (scripts/platforms/two_files.sh compiles everything, with each compiler.)
set -eu
source=$1 cc=$2 headers=$3 library=$4 models=${5-}
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    printf '%s\n' "$*"
    exit 1
}

echo "== the same files each time"
"$source/scripts/amalgamate.sh" "$work/core" 2>"$work/said"
"$source/scripts/amalgamate.sh" --models "$work" 2>"$work/said"
"$source/scripts/amalgamate.sh" --models "$work/again" 2>"$work/said"
for file in tapehead.h tapehead.c; do
    cmp "$work/$file" "$work/again/$file"
    head -n 1 "$work/$file"
    ! grep -F "$source" "$work/$file" || fail "$file has the path of the checkout"
done

echo "== no warnings"
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
checks() {
    # shellcheck disable=SC2086 # words
    "$cc" $warnings -fsyntax-only "$@"
}
checks "$work/core/tapehead.c"
checks -DTAPEHEAD_NO_MODELS "$work/tapehead.c"
libraries=
if [ -n "$models" ]; then
    checks "$work/tapehead.c"
    libraries="-ljansson -lutf8proc"
fi
! "$cc" -M -DTAPEHEAD_NO_MODELS "$work/tapehead.c" | grep -E 'jansson|utf8proc' || fail "TAPEHEAD_NO_MODELS leaves these headers in"

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
[ -n "$models" ] || options="$options -DTAPEHEAD_NO_MODELS"
cp "$source/examples/two_files/app.c" "$source/examples/two_files/write.c" "$source/tests/package/left_out.c" "$work/"
# shellcheck disable=SC2086 # words
"$cc" $options -c "$work/tapehead.c" -o "$work/tapehead.o" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
[ ! -s "$work/said" ] || fail "the compiler prints $(head -n 20 "$work/said")"
for program in app left_out ${models:+write}; do
    # shellcheck disable=SC2086 # words
    "$cc" $options $warnings "$work/$program.c" "$work/tapehead.o" -o "$work/$program" $libraries -lm -lpthread
done
cd "$work"
{ ./app 20 && ./left_out; } >trained || fail "$(cat trained)"
[ -z "$models" ] || ./write >>trained || fail "$(cat trained)"
cat trained

# (Debian has the kernel's headers for -m32 in gcc-multilib, which excludes cross compilers. They are the same files.)
small="-m32 -idirafter /usr/include/$("$cc" -print-multiarch 2>"$work/said" || echo none)"
# shellcheck disable=SC2086 # words
if printf '#include <errno.h>\nint main(void) { return errno; }\n' | "$cc" $small -x c - -o "$work/small" 2>"$work/said"; then
    echo "== 32 bits"
    checks $small "$work/core/tapehead.c"
else
    echo "not tested: the compiler builds nothing for 32 bits (gcc-12-multilib has the files)"
fi

echo "== the library"
if [ -n "$models" ]; then all=tapehead; else all=core; fi
echo "#include <tapehead/$all.h>" >tapehead.h
for program in app left_out ${models:+write}; do
    # shellcheck disable=SC2086 # words
    "$cc" $options -DOF_LIBRARY -I"$headers" $program.c $models "$library" "-Wl,-rpath,$(dirname "$library")" -o $program -lm
done
{ ./app 20 && ./left_out && { [ -z "$models" ] || ./write; }; } | diff trained - || fail "the library (>) writes other numbers"
