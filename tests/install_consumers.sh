#!/bin/sh
# install_consumers.sh core|models BUILD CMAKE CC CXX: installs the core component of a build, or everything, into an empty
# prefix and moves it. Then builds and runs small projects with the installation: with find_package and with pkg-config, shared
# and static, in C and in C++, and with Check.
set -eu
what=$1 build=$2 cmake=$3 cc=$4 cxx=$5
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() {
    echo "== $*"
}
fail() {
    echo "$*"
    exit 1
}

say "install: $what"
component="--component core"
[ "$what" = core ] || component=
# shellcheck disable=SC2086 # an option of two words, or none
"$cmake" --install "$build" --prefix "$work/first" $component >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"
prefix=$work/prefix
pc=$(find "$prefix" -name tapehead.pc)
lib=$(dirname "$(dirname "$pc")")
soname=$(readlink "$lib/libtapehead.so")
version=${soname#libtapehead.so.}
export PKG_CONFIG_PATH="$(dirname "$pc")"

# configure NAME [COMPONENT...]: configures the project with these components of find_package in $work/NAME.
configure() {
    name=$1
    shift
    components=$(echo "$*" | tr ' ' ';')
    "$cmake" -S "$here/consumer_cmake" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_CXX_COMPILER="$cxx" -DCOMPONENTS="$components" -DVERSION="$version" >"$work/log" 2>&1
}

say "find_package"
configure cmake && "$cmake" --build "$work/cmake" -j2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for program in line line_static gradient gradient_static cpp; do
    "$work/cmake/$program"
done
say "find_package, components"
configure core core || { cat "$work/log"; exit 1; }
[ ! -d "$work/core/CMakeFiles/models.dir" ] || fail "COMPONENTS core finds the models library too"
! (version=77 && configure old core) || fail "find_package accepts version $version in place of version 77"
! configure nonsense nonsense || fail "find_package finds a component called nonsense"
grep 'no component "nonsense"; it has core and models' "$work/log" || { cat "$work/log"; exit 1; }
if [ "$what" = core ]; then
    ! configure models core models || fail "find_package finds the models library, which is not installed"
    tr -s ' \n' ' ' <"$work/log" >"$work/line"
    grep 'has no models library' "$work/line" >/dev/null || { cat "$work/log"; exit 1; }
else
    configure models models || { cat "$work/log"; exit 1; }
    for program in models models_static models_cpp; do
        "$work/cmake/$program" "$work/weights"
    done
fi

export LD_LIBRARY_PATH="$lib"
# consume PACKAGE PROGRAM [ARGUMENT...]: compiles and runs PROGRAM with this package of pkg-config, shared and static.
consume() {
    package=$1 program=$here/$2
    shift 2
    say "pkg-config $package, shared"
    "$cc" "$program" -o "$work/shared" $(pkg-config --cflags --libs "$package")
    "$work/shared" "$@"
    for library in $(pkg-config --libs-only-l "$package"); do
        ldd "$work/shared" | grep -F "lib${library#-l}.so.$version => $lib/"
    done
    say "pkg-config $package, static"
    "$cc" "$program" -o "$work/static" \
        $(pkg-config --static --cflags --libs "$package" | sed -E 's/-l(tapehead[a-z_]*)/-l:lib\1.a/g')
    ! ldd "$work/static" | grep libtapehead || fail "the static program needs a shared library of Tapehead"
    "$work/static" "$@" >/dev/null
}
consume tapehead consumer_pkgconfig/main.c
consume tapehead consumer_gradient/main.c
if [ "$what" = core ]; then
    say "the core alone"
    ! find "$prefix" | grep -E 'models|tokenizer' || fail "this belongs to the models library"
    ! pkg-config --exists tapehead_models || fail "pkg-config finds tapehead_models"
    ! ldd "$lib/libtapehead.so" | grep -E 'jansson|pcre' || fail "the core needs these libraries"
else
    consume tapehead_models consumer_models/main.c "$work/weights"

    say "a models library with the core of another release"
    sed 's/TAPEHEAD_PRIVATE_0/TAPEHEAD_PRIVATE_1/' "$lib/$soname" >"$work/$soname"
    if LD_LIBRARY_PATH=$work:$lib "$work/shared" "$work/weights" 2>"$work/log"; then
        fail "they work together"
    fi
    cat "$work/log"
fi

say "programs that do not include tapehead/check.h need no Check"
if "$cc" -M "$here/consumer_pkgconfig/main.c" $(pkg-config --cflags tapehead) | tr ' ' '\n' | grep '/check\.h$' ||
    pkg-config --print-requires --print-requires-private tapehead | grep .; then
    exit 1
fi

if [ "$what" = core ]; then
    say "a user's Check suite"
    "$cc" "$here/consumer_check/test_cube.c" -o "$work/check" $(pkg-config --cflags --libs tapehead check) -lm
    "$work/check"
fi
