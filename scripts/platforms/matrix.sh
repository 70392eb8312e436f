#!/bin/sh
# matrix.sh [OPTION...] [ROW...]: builds and tests Tapehead with many compilers and options, in bare roots of three Debian releases.
#
# Each row of the table at the top of this script is a release, a compiler, a kind and options. The kinds are
#   all           builds everything and runs the quick tests (ctest -L quick)
#   quick         builds the quick tests and runs them
#   subproject    builds projects that contain Tapehead (tests/package/subproject.sh)
#   reproducible  compares two builds (scripts/platforms/reproducible.sh)
# A row passes if it completes without a warning of the compiler or the linker. Without names
# of rows, all run. At the end the script prints a table of the results.
# --list           prints the rows and exits
# --commit REV     tries this commit, or the archive of a release, instead of HEAD
# Exits with 77 and prints the reason if it cannot make a root (see bare_root.sh).
set -eu

# name release compiler kind options: CMake's options, or CFLAGS=...; Debian's hardening flags are called hardening. Each compiler,
# standard, generator and option is in at least one row; new compilers come first.
rows() {
    cat <<'EOF'
gcc-16                  testing gcc-16   all          -GNinja
clang-22                testing clang-22 all          -GNinja
gcc-16-c23-O3           testing gcc-16   quick        -GNinja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_STANDARD=23 CFLAGS=-O3
gcc-15-hardening        testing gcc-15   quick        -GNinja -DCMAKE_BUILD_TYPE=None hardening
clang-21-c23            testing clang-21 quick        -GNinja -DCMAKE_C_STANDARD=23
gcc-14                  13      gcc-14   all          -GNinja -DCMAKE_C_STANDARD=17
clang-19-lto            13      clang-19 quick        -GNinja -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_MODULE_LINKER_FLAGS=-fuse-ld=lld
gcc-14-lto              13      gcc-14   quick        -GNinja -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON
gcc-12-native           12      gcc-12   quick        -GNinja CFLAGS=-march=native
clang-14-native-O3      12      clang-14 quick        -GNinja -DCMAKE_BUILD_TYPE=None CFLAGS=-march=native,-O3
gcc-12-c23-unity        12      gcc-12   quick        -GNinja -DCMAKE_C_STANDARD=23 -DCMAKE_UNITY_BUILD=ON
clang-14-c17-unity      12      clang-14 quick        -GNinja -DCMAKE_C_STANDARD=17 -DCMAKE_UNITY_BUILD=ON
gcc-12-O0               12      gcc-12   quick        -GNinja -DCMAKE_BUILD_TYPE=Debug CFLAGS=-O0
clang-14-O0             12      clang-14 quick        -GNinja -DCMAKE_BUILD_TYPE=Debug CFLAGS=-O0
gcc-12-Og-make          12      gcc-12   quick        -GUnix@Makefiles -DCMAKE_BUILD_TYPE=None CFLAGS=-Og,-g
clang-19-hardening      12      clang-19 quick        -GNinja -DCMAKE_BUILD_TYPE=RelWithDebInfo hardening
gcc-12-core             12      gcc-12   quick        -GUnix@Makefiles -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_OPENMP=OFF -DCMAKE_C_STANDARD=11
gcc-12-multi-config     12      gcc-12   quick        -GNinja@Multi-Config -DCMAKE_DEFAULT_BUILD_TYPE=Release -DTAPEHEAD_MODELS=OFF
gcc-12-subproject       12      gcc-12   subproject
clang-22-subproject     testing clang-22 subproject
gcc-12-reproducible     12      gcc-12   reproducible
gcc-16-reproducible     testing gcc-16   reproducible
gcc-11                  12      gcc-11   quick        -GNinja
clang-13                12      clang-13 quick        -GNinja
EOF
}
hardening=-O2,-D_FORTIFY_SOURCE=3,-D_GLIBCXX_ASSERTIONS,-fstack-protector-strong,-fstack-clash-protection,-fcf-protection

here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/scripts/library/help.sh"
. "$here/scripts/library/root.sh"
commit=HEAD wanted=

answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --list)
        rows
        exit 0
        ;;
    --commit)
        need_value "$@"
        commit=$2
        shift
        ;;
    -*) refuse "unknown option $1" ;;
    *)
        rows | cut -d ' ' -f 1 | grep -Fx -e "$1" >/dev/null || refuse "no row has the name $1; --list prints the rows"
        wanted="$wanted $1"
        ;;
    esac
    shift
done

# -- what runs inside the root, as the user in the checkout --

# configure BUILD CC CXX OPTION...: in an option, @ becomes a space; between flags, a comma does.
# shellcheck disable=SC2016 # variables of the inner shell
configure='configure() {
    build=$1 cc=$2 cxx=$3 generator= flags= linker=
    shift 3
    for option; do
        shift
        case $option in
        -G*) generator=$(printf %s "$option" | tr @ " ") ;;
        CFLAGS=*) flags=$(printf %s "${option#CFLAGS=}" | tr , " ") ;;
        hardening) flags=$(printf %s "$hardening" | tr , " ") linker=-Wl,-z,relro,-z,now ;;
        *) set -- "$@" "$option" ;;
        esac
    done
    cmake -S . -B "$build" "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" ${linker:+-DCMAKE_EXE_LINKER_FLAGS=$linker -DCMAKE_SHARED_LINKER_FLAGS=$linker} "$@"
}'

# shellcheck disable=SC2016
all='cmake --build "$build" --parallel "$(nproc)" && ctest --test-dir "$build" -C Release -L quick --output-on-failure -j "$(nproc)"'
# shellcheck disable=SC2016
quick='cmake --build "$build" --parallel "$(nproc)" --target tapehead_quick &&
    ctest --test-dir "$build" -C Release -L quick --output-on-failure -j "$(nproc)"'

# run CC CXX KIND OPTION...: runs a row.
run() {
    cc=$1 cxx=$2 kind=$3
    shift 3
    case $kind in
    all) inside user sh -c "hardening=$hardening; $configure; configure \"\$@\" -DTAPEHEAD_BENCH=ON && $all" sh build "$cc" "$cxx" "$@" ;;
    quick) inside user sh -c "hardening=$hardening; $configure; configure \"\$@\" && $quick" sh build "$cc" "$cxx" "$@" ;;
    subproject) inside user tests/package/subproject.sh . cmake Ninja "$cc" whole ;;
    reproducible) inside root env CC="$cc" scripts/platforms/reproducible.sh ;;
    esac
}

# set_up CC CXX: installs what the row needs.
set_up() {
    inside root env CC="$1" CXX="$2" scripts/setup.sh matrix >"$work/log" 2>&1 || {
        tail -n 20 "$work/log"
        return 1
    }
    keep_packages
}

# -- the rows --

failed=
# result NAME OUTCOME TESTS SECONDS: prints and keeps a line of the table.
result() {
    printf '%-24s %-8s %-9s %-22s %-10s %s s\n' "$1" "$release" "$compiler" "$2" "$3" "$4"
    printf '| %s | %s | %s | `%s` | %s | %s | %s |\n' "$1" "$release" "$compiler" "$options" "$2" "$3" "$4" >>"$work/results"
}

# try NAME KIND: runs the row of this name, whose other columns are in the variables release, compiler and options.
try() {
    start=$(date +%s)
    cxx=$(printf %s "$compiler" | sed 's/^gcc/g++/; s/^clang/clang++/')
    if ! set_up "$compiler" "$cxx"; then
        result "$1" "not installable" - $(($(date +%s) - start))
        failed=yes
        return
    fi
    start=$(date +%s)
    outcome=passed
    # shellcheck disable=SC2086 # a list of words
    run "$compiler" "$cxx" "$2" $options >"$work/log" 2>&1 || outcome=FAILED
    warnings=$(grep -c -i 'warning: ' "$work/log" || true)
    [ "$warnings" -eq 0 ] || outcome="$warnings warnings, $outcome"
    tests=$(sed -n 's/^\([0-9]*%\) tests passed.* out of \([0-9]*\)$/\1 of \2/p' "$work/log")
    if [ "$outcome" != passed ]; then
        failed=yes
        grep -E -i -A 6 'warning: |error: |undefined reference|\*\*\*Failed|CMake Error' "$work/log" | head -n 100
        tail -n 20 "$work/log"
    fi
    inside user rm -rf build
    result "$1" "$outcome" "${tests:--}" $(($(date +%s) - start))
}

need_roots "$here" "$commit"
rows >"$work/rows"
prepared=
exec 3<"$work/rows" # (commands of a row read the standard input)
while read -r row row_release compiler kind options <&3; do
    case "${wanted:- $row} " in
    *" $row "*) ;;
    *) continue ;;
    esac
    if [ "$row_release" != "$prepared" ]; then
        choose_release "$row_release"
        fresh_copy
        prepared=$row_release
    fi
    try "$row" "$kind"
done
printf '\n%s, %s:\n\n' "$tried" "$(date -u +%Y-%m-%d)"
printf '| row | Debian | compiler | options | result | tests | seconds |\n|---|---|---|---|---|---|---|\n'
cat "$work/results"
[ -z "$failed" ]
