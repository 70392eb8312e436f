#!/bin/sh
# two_files.sh [--library BUILD] [--times]: compares training and generation with the two files (docs/two-files.md) with the library's archive.
# Both compute with kernels of the library. The two files are compiled by `cc -O2`.
#
#   without --times  instructions of a step or token, with one thread and AVX2, counted by valgrind (the difference of two runs)
#   --times          milliseconds of the fastest step or token in interleaved rounds. Run nothing else at the same time
#
# BUILD is a folder in which CMake has built both libraries with the same compiler. By default the script builds them.
# CC: the compiler (cc). ROUNDS: of times (default 5). THREADS: of times (default 1). Writes the table to standard output.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/library/help.sh"
answer_help "$@"
build=$root/build-bench-two-files library='' times=''
while [ $# -gt 0 ]; do
    case $1 in
    --library)
        need_value "$@"
        library=$2
        shift
        ;;
    --times) times=yes ;;
    *) refuse "unknown argument $1" ;;
    esac
    shift
done
cc=${CC:-cc}
[ -n "$times" ] || command -v valgrind >/dev/null || skip "valgrind is missing, which counts instructions"

# -- two programs of each kind: train_step.library, train_step.files ... --

if [ -z "$library" ]; then
    library=$build/library
    cmake -S "$root" -B "$library" -DCMAKE_C_COMPILER="$cc" -DTAPEHEAD_OPENMP=OFF -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF >/dev/null
    cmake --build "$library" --parallel "$(nproc)" --target tapehead_static tapehead_models_static >/dev/null
fi
openmp=$(sed -n 's/^TAPEHEAD_OPENMP:BOOL=ON$/-fopenmp/p' "$library/CMakeCache.txt")
mkdir -p "$build/files"
"$root/scripts/amalgamate.sh" "$build/files" 2>/dev/null
if ! cmp -s "$build/files/tapehead.c" "$build/compiled.c"; then
    "$cc" -O2 -c "$build/files/tapehead.c" -o "$build/tapehead.o"
    cp "$build/files/tapehead.c" "$build/compiled.c"
fi
needed="-ljansson -lutf8proc"
for name in z zstd; do
    ! grep -q "^TAPEHEAD_${name}_LIBRARY:FILEPATH=/" "$library/CMakeCache.txt" || needed="$needed -l$name"
done
for program in train_step generation; do
    parts=$root/bench/$program.c
    [ $program = generation ] || parts="$parts $root/bench/training.c"
    for kind in library files; do
        core=$build/tapehead.o
        [ $kind = files ] || core=$library/libtapehead.a
        # shellcheck disable=SC2086 # words
        "$cc" -O2 -D_GNU_SOURCE -I"$root/include" -I"$root/bench" -I"$root/examples" $openmp $parts "$library/libtapehead_models.a" "$core" \
            -o "$build/$program.$kind" $needed -lm -lpthread -ldl
    done
done

# -- measurements --

export TAPEHEAD_GEMM=native
small_char="train_step --layers 2 --width 128 --heads 4 --vocabulary 65 --batch 4 --length 64"
small_llama="generation --llama --layers 2 --width 256 --heads 4 --vocabulary 512 --repeats 1"

# run KIND PROGRAM OPTION...: runs a program of this kind.
run() {
    kind=$1 program=$2
    shift 2
    "$build/$program.$kind" "$@"
}

# count KIND PROGRAM OPTION...: prints the number of instructions.
count() {
    kind=$1 program=$2
    shift 2
    TAPEHEAD_ISA=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$build/$program.$kind" "$@" --threads 1 2>&1 >/dev/null |
        sed -n 's/.*Collected *: *//p'
}

# instructions NAME UNIT OPTION FEW MANY COMMAND...: prints a line of the table.
instructions() {
    name=$1 unit=$2 option=$3 few=$4 many=$5
    shift 5
    for kind in library files; do
        less=$(count $kind "$@" "$option" "$few")
        more=$(count $kind "$@" "$option" "$many")
        eval "of_$kind=$(((more - less) / (many - few)))"
    done
    # shellcheck disable=SC2154 # eval sets them
    awk -v name="$name" -v unit="$unit" -v a="$of_library" -v b="$of_files" \
        'BEGIN { printf "| %s | instructions of a %s | %d | %d | %.4f |\n", name, unit, a, b, b / a }'
}

# milliseconds NAME FIELD COMMAND...: prints a line of the table.
milliseconds() {
    name=$1 field=$2
    shift 2
    for round in $(seq "${ROUNDS:-5}"); do
        for kind in library files; do
            run $kind "$@" --threads "${THREADS:-1}" | sed "s/^/ /; s/.* $field=\([0-9.]*\) .*/$kind \1/"
        done
    done | awk -v name="$name" -v field="$field" '
        !($1 in least) || $2 < least[$1] { least[$1] = $2 }
        END { printf "| %s | %s | %s | %s | %.4f |\n", name, field, least["library"], least["files"], least["files"] / least["library"] }'
}

printf '| case | measure | library | two files | two files / library |\n|---|---|---:|---:|---:|\n'
# shellcheck disable=SC2086 # words
if [ -n "$times" ]; then
    milliseconds copyA min_ms train_step copyA --seconds 1
    milliseconds copyB min_ms train_step copyB --seconds 2
    milliseconds char12 min_ms train_step char12 --steps 2
    milliseconds "generation, Llama 6 x 384" token_ms generation --llama --layers 6 --width 384 --heads 6 --vocabulary 512
else
    instructions copyA step --steps 3 13 train_step copyA
    instructions copyB step --steps 1 2 train_step copyB
    instructions "char, 2 x 128" step --steps 1 3 $small_char
    instructions "generation, Llama 2 x 256" token --tokens 8 40 $small_llama
fi
