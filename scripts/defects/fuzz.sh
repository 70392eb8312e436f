#!/bin/sh
# fuzz.sh MINUTES [TARGET...]: searches with libFuzzer for inputs that violate a property of the targets in tests/fuzz.
# fuzz.sh --inputs N [TARGET...]: searches with N inputs for each target.
# fuzz.sh --minimize [TARGET...]: adds to tests/fuzz/corpus the inputs found so far that cover more code than those there.
# fuzz.sh --add TARGET FILE...: adds these files to tests/fuzz/corpus/TARGET.tar, or makes this archive.
# MINUTES are divided among the targets, by default all. The search starts from tests/fuzz/corpus and from all inputs that
# earlier searches found (build-fuzz/found). It prints each failing input with the command that repeats the failure, and
# ends with status 1 if there is one. After the defect is repaired, add that input under a name in words, so that CI tests it.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
build=$root/build-fuzz
inputs=$root/tests/fuzz
minimize= add= number=
case ${1:-} in
--minimize) minimize=yes ;;
--inputs)
    need_value "$@"
    case $2 in
    '' | *[!0-9]* | 0*) refuse "--inputs takes a positive number, not $2" ;;
    esac
    number=$2
    shift
    ;;
--add)
    [ $# -gt 2 ] || refuse "--add needs a target and files"
    [ -e "$inputs/$2.c" ] || refuse "there is no target called $2"
    add=$2
    shift
    for file; do
        [ "$file" = "$add" ] || [ -f "$file" ] || refuse "there is no file $file"
    done
    ;;
-*) refuse "unknown option $1" ;;
'' | *[!0-9]*) refuse "the first argument must be a number of minutes, --inputs, --minimize or --add" ;;
0) refuse "there must be at least one minute" ;;
*) seconds=$((60 * $1)) ;;
esac
shift

# -- the archives of inputs --

# unpack NAME: unpacks the inputs of a target into $build/inputs/NAME.
unpack() {
    rm -rf "$build/inputs/$1"
    mkdir -p "$build/inputs/$1"
    [ ! -e "$inputs/corpus/$1.tar" ] || tar -xf "$inputs/corpus/$1.tar" -C "$build/inputs/$1"
}

# pack NAME: makes the archive of these inputs. The same inputs give the same bytes.
pack() {
    (
        cd "$build/inputs/$1"
        export LC_ALL=C # the order of *
        tar --format=ustar --blocking-factor=1 --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 -cf "$inputs/corpus/$1.tar" -- *
    )
}

number_of() { # number_of NAME: prints how many unpacked inputs the target has
    find "$build/inputs/$1" -type f | wc -l
}

if [ -n "$add" ]; then
    unpack "$add"
    cp "$@" "$build/inputs/$add/"
    pack "$add"
    printf '%s: %s inputs\n' "$add" "$(number_of "$add")" >&2
    print_written "$inputs/corpus/$add.tar"
    exit 0
fi

# -- the targets --

if [ $# -eq 0 ]; then
    for file in "$inputs"/*.c; do
        name=$(basename "$file" .c)
        [ "$name" = fuzz ] || [ "$name" = replay ] || set -- "$@" "$name"
    done
fi
for name; do
    [ -e "$inputs/corpus/$name.tar" ] && [ -e "$inputs/$name.c" ] || refuse "there is no target called $name"
done

# -- set-up --

"$root/scripts/setup.sh" audit
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    -DTAPEHEAD_SANITIZE=address -DTAPEHEAD_FUZZ=ON -DTAPEHEAD_EXAMPLES=OFF >/dev/null
# shellcheck disable=SC2046 # names of targets have no spaces
cmake --build "$build" --target $(printf 'fuzz_%s ' "$@") --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >/dev/null
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:quarantine_size_mb=16"
export UBSAN_OPTIONS=print_stacktrace=1

# fuzz NAME FOLDER OPTION...: runs a target in the folder. An input has at most 64 KiB, 25 s and 1 GiB.
fuzz() {
    name=$1 folder=$2
    shift 2
    [ ! -e "$inputs/dictionaries/$name" ] || set -- -dict="$inputs/dictionaries/$name" "$@"
    mkdir -p "$folder"
    (cd "$folder" && "$build/tests/fuzz/fuzz_$name" -timeout=25 -rss_limit_mb=1024 -max_len=65536 -verbosity=0 \
        -print_final_stats=1 "$@") >"$folder/output" 2>&1
}

# -- keeping the inputs that cover more code --

if [ -n "$minimize" ]; then
    for name; do
        unpack "$name"
        before=$(number_of "$name")
        mkdir -p "$build/found/$name"
        fuzz "$name" "$build/findings/$name" -set_cover_merge=1 -use_counters=0 "$build/inputs/$name" "$build/found/$name" || {
            tail -n 30 "$build/findings/$name/output" >&2
            exit 1
        }
        pack "$name"
        printf '%s: %s inputs, now %s\n' "$name" "$before" "$(number_of "$name")" >&2
    done
    exit 0
fi

# -- searching --

failed=
for name; do
    findings=$build/findings/$name
    mkdir -p "$build/found/$name"
    unpack "$name"
    limit=-runs=$number
    [ -n "$number" ] || limit=-max_total_time=$((seconds / $#))
    if fuzz "$name" "$findings" "$limit" "$build/found/$name" "$build/inputs/$name"; then
        printf '%s: no finding in %s inputs\n' "$name" \
            "$(sed -n 's/^stat::number_of_executed_units: *//p' "$findings/output")" >&2
        continue
    fi
    failed="$failed $name"
    tail -n 60 "$findings/output" >&2
    input=$(sed -n 's/.*Test unit written to \(.*\)/\1/p' "$findings/output" | sed "s|^\./|$findings/|" | tail -n 1)
    printf '%s: FAILED; this command repeats it:\n   ' "$name" >&2
    quoted "$build/tests/fuzz/fuzz_$name" "$input" >&2
    printf '\n' >&2
done
if [ -n "$failed" ]; then
    echo "fuzz.sh: FAILED:$failed" >&2
    exit 1
fi
print_next fuzz.sh --minimize "$@"
