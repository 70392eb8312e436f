#!/bin/sh
# run.sh SCRIPTS CC: scripts/run.sh starts the example of an unchanged build at once: it runs neither setup.sh nor CMake. After a change of
# a source, a new or removed file, a change of the configuration, or on another processor it builds again. A failed build does not
# count as a build.
set -eu
scripts=$1 cc=$(command -v "$2")
work=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export CC="$cc" CALLS="$work/calls"

checkout="$work/a checkout"
mkdir -p "$checkout/scripts/library" "$checkout/src" "$checkout/include" "$checkout/cmake" "$checkout/examples" "$checkout/programs" "$checkout/teaching" "$work/tools"
cd "$checkout"
cp "$scripts/run.sh" scripts/
cp "$scripts/library/configure.sh" "$scripts/library/help.sh" scripts/library/
printf '#!/bin/sh\necho setup >>"$CALLS"\n' >scripts/setup.sh
printf '#!/bin/sh\necho cmake >>"$CALLS"\nexec "%s" "$@"\n' "$(command -v cmake)" >"$work/tools/cmake"
chmod +x scripts/setup.sh "$work/tools/cmake"
export PATH="$work/tools:$PATH"
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.22)
project(probe LANGUAGES C)
option(TAPEHEAD_MODELS "" ON)
file(GLOB sources CONFIGURE_DEPENDS src/*.c)
add_executable(hello examples/hello.c ${sources})
set_target_properties(hello PROPERTIES RUNTIME_OUTPUT_DIRECTORY examples)
END
echo 'int number(void); int number(void) { return 7; }' >src/number.c
printf '#include <stdio.h>\nint number(void);\nint main(void) { return printf("%%d\\n", number()) < 0; }\n' >examples/hello.c

# runs WHAT PRINTED CALLS: the example prints this, and as many calls of setup.sh and CMake are made, or "some".
runs() {
    : >"$CALLS"
    printed=$(scripts/run.sh hello 2>"$work/log") || printed=failed
    calls=$(wc -l <"$CALLS")
    [ "$calls" -eq 0 ] || calls=some
    if [ "$printed" != "$2" ] || [ "$calls" != "$3" ]; then
        cat "$work/log" "$CALLS"
        echo "$1: printed \"$printed\" with $calls calls, not \"$2\" with $3"
        exit 1
    fi
    echo "$1: right"
}

runs "the first time" 7 some
runs "unchanged" 7 0
sed -i 's/7/8/' src/number.c
runs "after a change of a source" 8 some
runs "unchanged again" 8 0
echo 'int number(void) { return 9; } error' >src/number.c
runs "a source that does not compile" failed some
runs "the same again" failed some
mv src/number.c src/other.c
echo 'int number(void); int number(void) { return 9; }' >src/other.c
touch -d 2020-02-02 src/other.c
runs "after another file with an old date took its place" 9 some
runs "unchanged after that" 9 0
cmake -DPROBE=ON build/core >"$work/log"
runs "after a change of the configuration" 9 some
runs "unchanged after that too" 9 0
rm build/core/examples/hello
runs "without the program" 9 some
echo "the features of another processor" >build/core/run/hello
runs "on another processor" 9 some
