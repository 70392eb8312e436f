#!/bin/sh
# install_consumers.sh core|models BUILD CMAKE CC CXX: installs a build into an empty prefix and moves it. With "core" removes the
# models library: then the prefix has the same files as an installation of Debian's packages of the core. Then builds and runs small
# projects with the installation: with find_package and with pkg-config, shared and static, in C and in C++, with Check, and the
# installed examples.
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
"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
if [ "$what" = core ]; then
    models_headers=$(sed -n 's|^#include "\(tapehead/.*\)"$|\1|p' "$here/../../include/tapehead/models.h" | grep -vx tapehead/core.h)
    (cd "$work/first/include" && rm -f $models_headers tapehead/models.h)
    find "$work/first" -name 'libtapehead_models*' -o -name 'tapehead_models.pc' -o -name 'tapehead-models-*' |
        while read -r file; do rm "$file"; done
fi
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
    ! find "$prefix/include" "$lib" | grep -E 'models|tokenizer' || fail "this belongs to the models library"
    ! pkg-config --exists tapehead_models || fail "pkg-config finds tapehead_models"
    ! ldd "$lib/libtapehead.so" | grep -E 'jansson|pcre|utf8proc|libz' || fail "the core needs these libraries"
else
    consume tapehead_models consumer_models/main.c "$work/weights"

    say "a models library with the core of another release"
    sed 's/TAPEHEAD_PRIVATE_0/TAPEHEAD_PRIVATE_1/' "$lib/$soname" >"$work/$soname"
    if LD_LIBRARY_PATH=$work:$lib "$work/shared" "$work/weights" 2>"$work/log"; then
        fail "they work together"
    fi
    cat "$work/log"
fi

say "the installed examples"
example=copy_task
[ "$what" = core ] || example=translate_dates
"$cmake" -S "$prefix/share/doc/tapehead/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    >"$work/log" 2>&1 && "$cmake" --build "$work/examples" -j2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
(cd "$work" && examples/$example --quiet --steps 5)
"$cc" "$prefix/share/doc/tapehead/examples/train.c" -o "$work/train" $(pkg-config --cflags --libs tapehead)
"$work/train"
"$work/examples/class/1_chain_rule" >/dev/null
if [ "$what" = core ]; then
    grep 'language_model is left out: it needs the models library' "$work/log" || { cat "$work/log"; exit 1; }
fi

say "programs that do not include tapehead/check.h need no Check"
if "$cc" -M "$here/consumer_pkgconfig/main.c" $(pkg-config --cflags tapehead) | tr ' ' '\n' | grep '/check\.h$' ||
    pkg-config --print-requires --print-requires-private tapehead | grep .; then
    exit 1
fi

if [ "$what" = core ]; then
    say "a plugin with the library of another soname"
    echo 'const char *th_version(void) { return "77"; }' >"$work/other.c"
    echo 'TAPEHEAD_77 { th_*; };' >"$work/other.map"
    "$cc" -shared -fPIC "$work/other.c" -o "$work/libtapehead.so.77" -Wl,-soname,libtapehead.so.77,--version-script="$work/other.map"
    echo 'const char *th_version(void); const char *plugin(void) { return th_version(); }' >"$work/plugin.c"
    "$cc" -shared -fPIC "$work/plugin.c" -o "$work/libplugin.so" "$work/libtapehead.so.77"
    echo '#include <string.h>
        const char *th_version(void), *plugin(void);
        int main(void) { return strcmp(plugin(), "77") != 0 || strcmp(th_version(), "77") == 0; }' >"$work/host.c"
    "$cc" "$work/host.c" -o "$work/host" "$work/libplugin.so" $(pkg-config --libs tapehead) -Wl,--allow-shlib-undefined
    LD_PRELOAD=$lib/$soname LD_LIBRARY_PATH=$work:$lib "$work/host" || fail "the plugin or the program calls the wrong library"
    rm "$work/libtapehead.so.77"
    ! LD_LIBRARY_PATH=$work:$lib "$work/host" 2>"$work/log" || fail "the program starts without the plugin's library"
    grep 'libtapehead.so.77' "$work/log" || { cat "$work/log"; exit 1; }

    say "a user's Check suite"
    "$cc" "$here/consumer_check/test_cube.c" -o "$work/check" $(pkg-config --cflags --libs tapehead check) -lm
    "$work/check"

    say "an exercise"
    exercises=$here/../../teaching/exercises
    "$exercises/tests/fill.sh" "$exercises/1_multiply.c" "$exercises/tests/solutions/1_multiply.txt" >"$work/1_multiply.c"
    CC=$cc "$here/../../scripts/exercise.sh" --installed 1 "$work/1_multiply.c"
fi
