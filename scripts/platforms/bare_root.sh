#!/bin/sh
# bare_root.sh [OPTION...] [12|13] [demo|model|core|test|install|warnings|processes|all]: tries README's commands on a system without any of the
# needed packages.
#
# Makes a minimal root of Debian 12 (the default) or 13 with debootstrap (variant minbase). Runs one of these in a fresh copy of
# that root, with a clean checkout:
#   demo     (the default) as root: scripts/demo.sh, then the core library is installed and a program checks a gradient with it.
#            Warnings of the compiler are errors
#   model    as a user with sudo: scripts/run.sh trains a language model and samples from it, then scripts/demo.sh. Warnings are errors
#   core     builds and installs the core library with a compiler, make and CMake only; a program checks a gradient with it
#   test     scripts/test.sh as a user with sudo: set-up and build of everything; the tests run with --tests
#   install  the commands of docs/installing.md; the programs of README are compiled with the installation
#   warnings builds everything with that Debian's gcc and clang; a warning is an error
#   processes as root: the tests over that Debian's Open MPI and MPICH (scripts/processes/processes.sh)
#   all      all seven, each in its own copy
# --commit REV     tries this commit instead of HEAD
# --archive FILE   tries the files of this archive (scripts/platforms/release.sh)
# --tests          in "test": runs the tests too
# --sanitizers     in "warnings": builds with the sanitizers too
# --fresh          makes a new root; otherwise the root and the downloaded packages stay in $XDG_CACHE_HOME/tapehead
# Exits with 77 and prints the reason if it cannot make a root: without root's rights or namespaces, without debootstrap (if apt-get
# cannot install it), or without a Debian mirror. It uses the mirror and the proxy of this machine's apt, or DEBIAN_MIRROR from
# the environment.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/scripts/library/help.sh"
. "$here/scripts/library/root.sh"
release=12 what=demo commit=HEAD fresh= ctest_options=-N sanitizers=OFF

answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    12 | 13) release=$1 ;;
    demo | model | core | test | install | warnings | processes | all) what=$1 ;;
    --tests) ctest_options= ;;
    --sanitizers) sanitizers="OFF address" ;;
    --fresh) fresh=yes ;;
    --commit)
        need_value "$@"
        commit=$2
        shift
        ;;
    --archive)
        need_value "$@"
        [ -f "$2" ] || refuse "$2 is not a file"
        commit=$2
        shift
        ;;
    *) refuse "$1 is not an option or a step" ;;
    esac
    shift
done

failed=
# try WHAT USER COMMAND...: runs it and prints the outcome in a line; if it fails, the last lines of its output too.
try() {
    title=$1
    shift
    start=$(date +%s)
    if inside "$@" >"$work/log" 2>&1; then
        say "$title: passed, $(($(date +%s) - start)) s"
        ! grep -E '^copy_task: ' "$work/log" || true
    else
        tail -n 40 "$work/log"
        say "$title: FAILED"
        failed=yes
    fi
    keep_packages
}

# The demo as in README, from another directory: the model has learned, and two pictures are there.
demo='mkdir ~/elsewhere && cd ~/elsewhere && ~/tapehead/scripts/demo.sh >output || exit 1
    tail -n 1 output
    tail -n 1 output | grep "sequence_accuracy=1.0000" >/dev/null || exit 1
    for picture in copy_task_out/*.svg; do
        tail -n 1 "$picture" | grep "</svg>" >/dev/null || exit 1
        echo "$picture"
    done | grep -c . | grep -x 2 >/dev/null || exit 1'

# A small run from a text to a sample.
sample='cd && model() { ~/tapehead/scripts/run.sh language_model "$@"; }
    model train ~/tapehead/README.md run --steps 30 --quiet && model sample run --prompt Tape --tokens 20 >sample &&
        grep "^Tape" sample || exit 1'

# use_core BUILD: installs the core from this build as root. A program checks a gradient, linked with -ltapehead and found by CMake.
use_core='use_core() {
        cd ~/tapehead && cmake --build "$1" --parallel "$(nproc)" && $sudo cmake --install "$1" && $sudo ldconfig || exit 1
        ! find /usr/include /usr/local/include | grep -E "jansson|utf8proc" || exit 1
        cc tests/package/consumer_gradient/main.c -o ~/gradient -ltapehead && ~/gradient &&
            cmake -S tests/package/consumer_cmake -B ~/consumer -DCOMPONENTS=core && cmake --build ~/consumer &&
            ~/consumer/gradient && ~/consumer/gradient_static
    }'

try_demo() {
    fresh_copy
    try "demo and installation of the core as root, without a warning" root sh -c "export CFLAGS=-Werror
        $demo
        $use_core
        use_core build/core"
}

try_model() {
    fresh_copy
    give_sudo
    try "language model and demo as a user with sudo, without a warning" user sh -c "export CFLAGS=-Werror
        $sample
        $demo"
}

try_core() {
    fresh_copy
    give_sudo
    try "the core with a compiler, make and CMake only" user sh -c "sudo=sudo
        sudo apt-get -q install -y --no-install-recommends gcc libc6-dev make cmake || exit 1
        cmake -S . -B build -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF || exit 1
        $use_core
        use_core build
        ~/tapehead/build/examples/copy_task --quiet --steps 5"
}

try_test() {
    fresh_copy
    give_sudo
    # shellcheck disable=SC2086 # an option or none
    try "test.sh $ctest_options" user scripts/test.sh $ctest_options
}

# The commands of docs/installing.md, and the programs of README with pkg-config and with CMake.
install='commands=$(sed -n "/^## Commands/,/^Then/s/^    //p" docs/installing.md) && test -n "$commands" && sh -ec "$commands" &&
    sudo apt-get -q install -y --no-install-recommends pkg-config check &&
    tests/documents/documents.sh README.md cc $(pkg-config --cflags --libs tapehead check) &&
    tests/documents/documents.sh README.md find_package'

try_install() {
    fresh_copy
    give_sudo
    try "installing" user sh -c "$install"
}

# Everything in release builds, and with --sanitizers also under the sanitizers.
# shellcheck disable=SC2016 # variables of the inner shell
everything='scripts/setup.sh test && CC=$1 CXX=$2 cmake -S . -B "build/$1-$3" -DCMAKE_BUILD_TYPE=Release \
        -DTAPEHEAD_WERROR=ON -DTAPEHEAD_MPI=ON -DTAPEHEAD_BENCH=ON -DTAPEHEAD_INTEROP=ON -DTAPEHEAD_SANITIZE="$3" &&
    cmake --build "build/$1-$3" --parallel "$(nproc)"'

try_warnings() {
    fresh_copy
    give_sudo
    for sanitizer in $sanitizers; do
        for compiler in "gcc g++" "clang clang++"; do
            # shellcheck disable=SC2086 # two words
            try "no warning from ${compiler%% *}, sanitizer $sanitizer" user sh -c "$everything" sh $compiler "$sanitizer"
        done
    done
}

try_processes() {
    fresh_copy
    try "tests over MPI" root scripts/processes/processes.sh
}

need_roots "$here" "$commit"
[ -z "$fresh" ] || rm -f "$cache/bare-debian-$release/base.tar"
choose_release "$release"
say "$tried"
case $what in
all)
    try_demo
    try_model
    try_core
    try_test
    try_install
    try_warnings
    try_processes
    ;;
*) "try_$what" ;;
esac
[ -z "$failed" ]