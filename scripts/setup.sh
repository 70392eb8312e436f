#!/bin/sh
# setup.sh [TIER]: installs missing packages. The tiers are
#   demo     for the core library and the demo: a C compiler with OpenMP, make, CMake; OpenBLAS
#   models   for both libraries and all examples: the packages of demo, jansson, utf8proc, zlib and libzstd
#   mpi      for examples in several processes: the packages of models, and Open MPI
#   matrix   for the tests of scripts/platforms/matrix.sh: the packages of models, and the tools and libraries of these tests
#   test     (the default) for all tests: the packages of mpi, more compilers, tools, and libraries whose results the tests
#            compare
#   audit    for the searches in scripts/defects, scripts/processes/processes.sh and scripts/platforms/abi.sh: the packages of
#            test, analyzers, and MPICH
#   bench    for the benchmark: the packages of models, and packages for the programs that it compares with
#   interop  for the comparison with PyTorch and others: the packages of models, and Python with virtual environments
#   browser  for the tests of pages in a browser (browser.sh): the packages of demo, Chromium, its driver, and Selenium
#   tiles    for the tests on an emulated processor with AMX tiles: the packages of demo, and tools to make its machine
#   cross    for scripts/platforms/cross.sh: a cross compiler for aarch64, QEMU, make, CMake
#   mca      for bench/studies/neon_loops.sh: the packages of cross, llvm-mca and Python
#   musl     for scripts/platforms/musl.sh: the C library musl and its compiler, tools for Debian's source packages, make, CMake
#   mingw    for scripts/platforms/mingw.sh: a compiler for Windows, Wine, tools for Debian's source packages, make, CMake
#   zig      for scripts/platforms/zig.sh: Python with virtual environments, cross compilers, QEMU, Wine
#   class    for scripts/class.sh: emscripten and node, tools for Debian's source packages, make, CMake
#   site     for scripts/site.sh: pandoc, and the packages of demo
#   release  for the archive of a release (scripts/platforms/release.sh): git, doxygen and python3
#   root     for minimal roots of Debian (scripts/library/root.sh): debootstrap
#   package  for Debian packages (scripts/platforms/deb.sh): git, debootstrap and diffoscope. The roots have all other tools
# CC and CXX in the environment name the compilers; CC=gcc-15 and CC=clang-19 also name Debian's packages.
# Installs Debian packages only, with apt-get, as root or with sudo. Changes nothing if no package is missing.
set -eu

. "$(dirname "$(readlink -f "$0")")/library/help.sh"
answer_help "$@"
tier=${1:-test}
case $tier in
demo | models | mpi | matrix | test | audit | bench | interop | browser | tiles | mingw | zig | class | site | release | root | package) ;;
cross | mca) CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ ;;
musl) CC=musl-gcc ;;
-*) refuse "unknown option $tier" ;;
*) refuse "$tier is not one of the tiers, which --help lists" ;;
esac

# -- tests of tools and libraries: each one uses the tool, so that it does not matter how it was installed --

compiles() { # compiles COMPILER LANGUAGE FLAGS... <program
    compiler=$1 language=$2
    shift 2
    $compiler -x "$language" - -o /dev/null "$@" # (CC may be "ccache gcc")
}
has_c_of_machine() {
    CC=$c has_c
}
has_c() {
    echo '#include <stdio.h>
          int main(void) { return puts("") < 0; }' | compiles "${CC:-cc}" c
}
has_vectors() {
    echo 'typedef float floats __attribute__((vector_size(16)));
          typedef int integers __attribute__((vector_size(16)));
          int main(void) { floats x = {0, 1}; return __builtin_convertvector(x, integers)[0] != 0; }' |
        compiles "${CC:-cc}" c
}
has_gcc_vectors() {
    CC=gcc has_vectors
}
has_openmp() {
    echo '#include <omp.h>
          int main(void) { return omp_get_max_threads() < 1; }' | compiles "${CC:-cc}" c -fopenmp
}
has_cpp() {
    echo '#include <memory>
          int main() { return !std::make_unique<int>(1); }' | compiles "${CXX:-c++}" c++
}
has_vectors_and_openmp() {
    has_vectors && has_openmp
}
has_clang_lto() { # clang's archives need llvm-ar, and its linker is lld
    echo 'int main(void) { return 0; }' | compiles "$c" c -flto -fuse-ld=lld && "llvm-ar-${c#clang-}" --version
}
has_ninja() {
    ninja --version
}
has_make() {
    make --version
}
has_cmake() { # 3.22 or later
    cmake --version | awk '/^cmake version [0-9]+\.[0-9]/ { split($3, v, "."); new = 1000 * v[1] + v[2] >= 3022 } END { exit !new }'
}
has_openblas() {
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep 'libopenblas\.so\.0 ' || {
        echo "ldconfig -p lists no libopenblas.so.0"
        return 1
    }
}
has_openblas_openmp() { # in addition to the default build
    ls /usr/lib/*/openblas-openmp/libopenblas.so.0
}
has_jansson() {
    echo '#include <jansson.h>
          int main(void) { return !json_object(); }' | compiles "${CC:-cc}" c -ljansson
}
has_pcre2() {
    echo '#define PCRE2_CODE_UNIT_WIDTH 8
          #include <pcre2.h>
          int main(void) { return pcre2_config(PCRE2_CONFIG_JIT, 0) < 0; }' | compiles "${CC:-cc}" c -lpcre2-8
}
has_utf8proc() {
    echo '#include <utf8proc.h>
          int main(void) { return utf8proc_tolower(65) != 97; }' | compiles "${CC:-cc}" c -lutf8proc
}
has_zlib() {
    echo '#include <zlib.h>
          int main(void) { return zlibVersion()[0] == 0; }' | compiles "${CC:-cc}" c -lz
}
has_zstd() {
    echo '#include <zstd.h>
          int main(void) { return ZSTD_versionNumber() == 0; }' | compiles "${CC:-cc}" c -lzstd
}
compiles_mpi() { # compiles_mpi MPICC: with the compiler that the build uses
    echo '#include <mpi.h>
          int main(void) { return MPI_Finalize(); }' | OMPI_CC=${CC:-cc} MPICH_CC=${CC:-cc} compiles "$1" c
}
has_mpi() {
    compiles_mpi mpicc
}
has_mpirun() {
    mpirun --version
}
has_mpich() { # beside Open MPI
    compiles_mpi mpicc.mpich
}
has_mpirun_of_mpich() {
    mpirun.mpich --version
}
has_pkg_config() {
    pkg-config --version
}
has_check() {
    pkg-config --exists --print-errors 'check >= 0.15' || {
        pkg-config --exists check && echo "that one is $(pkg-config --variable=pcfiledir check)/check.pc"
        return 1
    }
}
has_random123() {
    echo '#include <Random123/philox.h>' | ${CC:-cc} -fsyntax-only -x c -
}
has_random123_of_gcc() {
    CC=gcc has_random123
}
has_kernel_headers() {
    echo '#include <linux/filter.h>' | gcc -fsyntax-only -x c -
}
has_dpkg_source() {
    dpkg-source --version
}
has_emcc() {
    emcc --version
}
has_mingw() {
    echo '#include <windows.h>
          int main(void) { return GetVersion() == 0; }' | compiles x86_64-w64-mingw32-gcc c -c
}
has_wine() {
    wine --version
}
has_node() {
    node --version
}
has_binutils() {
    objdump --version && readelf --version && nm --version
}
has_clang() {
    clang --version && echo 'int main() { return 0; }' | compiles clang++ c++
}
has_clang_openmp() {
    echo '#include <omp.h>
          int main(void) { return omp_get_max_threads() < 1; }' | compiles clang c -fopenmp
}
has_thread_sanitizer() {
    echo 'int main(void) { return 0; }' | compiles clang c -fsanitize=thread
}
has_python() {
    python3 --version
}
has_venv() { # Debian's python3 has venv, but not ensurepip, which venv needs
    python3 -c 'import ensurepip, venv'
}
has_python_header() { # torch.compile builds extensions
    header=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    test -e "$header"
}
has_chromium() {
    chromium --version
}
has_chromium_driver() {
    chromedriver --version
}
has_fonts() { # Chromium without fonts draws no text
    ls /usr/share/fonts/*/*/*.[ot]tf
}
has_chinese_font() {
    fc-list :lang=zh | grep .
}
has_selenium() { # a package for Debian's Python
    /usr/bin/python3 -c 'import selenium.webdriver'
}
has_clang_format() {
    clang-format --version
}
has_googletest() {
    echo '#include <gtest/gtest.h>' | g++ -x c++ -fsyntax-only -
}
has_valgrind() {
    valgrind --version
}
has_doxygen() {
    doxygen --version
}
has_pandoc() { # with its interpreter of Lua
    pandoc --version
}
has_git() {
    git --version
}
has_debootstrap() {
    debootstrap --version
}
has_diffoscope() {
    diffoscope --version
}
has_abidiff() {
    abidiff --version
}
has_strace() {
    strace --version
}
has_spin() { # it prints the model's errors, and writes pan.c for the C compiler
    spin -V
}
has_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) { return data && size > 8 ? -1 : 0; }' |
        compiles clang c -fsanitize=fuzzer,address
}
has_clang_tidy() {
    clang-tidy --version
}
has_cppcheck() {
    cppcheck --version
}
has_gcovr() {
    gcovr --version
}
has_xz() {
    xz --version
}
has_cpio() {
    cpio --version
}
has_mca() { # with models of Neoverse N1 and V1
    for processor in neoverse-n1 neoverse-v1; do
        echo 'fmla v0.4s, v1.4s, v2.s[0]' | llvm-mca-19 -mtriple=aarch64-linux-gnu -mcpu=$processor || return 1
    done
}
has_qemu() {
    qemu-aarch64 --version || qemu-aarch64-static --version
}
has_xorriso() {
    xorriso -version
}

# explain PACKAGE SAID TOOL LEAST: prints why the package's test fails: the tool's path and version, the oldest version that works,
# and other tools of that name in PATH. Then it prints SAID, the output of the test.
explain() {
    package=$1 said=$2 tool=$3 least=$4
    # shellcheck disable=SC2086 # (CC may be "ccache gcc")
    set -- $tool
    if [ $# -eq 0 ]; then
        printf '  %s:' "$package"
    elif path=$(command -v "$1"); then
        shift
        printf '  %s: %s%s is "%s"' "$package" "$path" "${*:+ $*}" "$("$path" "$@" --version 2>&1 | head -n 1)"
        [ -z "$least" ] || printf '; %s or later is needed' "$least"
        others=$(printf %s "$PATH" | tr : '\n' | while read -r directory; do
            other=$directory/$(basename "$path")
            [ "$other" = "$path" ] || [ ! -x "$other" ] || printf ', %s' "$other"
        done)
        [ -z "$others" ] || printf '. PATH also has, after it, %s' "${others#, }"
    else
        printf '  %s: there is no %s in PATH' "$package" "$1"
    fi
    printf '\n'
    [ -z "$said" ] || printf '%s\n' "$said" | sed -n '1,12s/^/    /p'
}

# need PACKAGE TEST TOOL [LEAST]: prints the package if its test fails; LEAST is the oldest version of the tool that works.
need() {
    if ! said=$("$2" 2>&1); then
        printf ' %s' "$1"
        [ -z "$why" ] || explain "$1" "$said" "$3" "${4:-}" >&2
    fi
}

# -- the packages of each tier --

c=${CC:-cc} cpp=${CXX:-c++}

compiler() {
    case $c in
    musl-gcc)
        need gcc has_gcc_vectors gcc 11
        need "musl-tools musl-dev" has_c "$c"
        return
        ;;
    aarch64-linux-gnu-gcc)
        need gcc-aarch64-linux-gnu has_vectors_and_openmp "$c" 11
        need libc6-dev-arm64-cross has_c "$c"
        return
        ;;
    clang-[0-9]*)
        need "$c" has_vectors "$c"
        need "libomp-${c#clang-}-dev" has_openmp "$c"
        ;;
    *clang*)
        need clang has_vectors "$c"
        need libomp-dev has_openmp "$c"
        ;;
    gcc-[0-9]*) need "$c" has_vectors_and_openmp "$c" 11 ;;
    *) need gcc has_vectors_and_openmp "$c" 11 ;;
    esac
    need libc6-dev has_c "$c"
}
cpp_compiler() {
    case $cpp in
    g++-[0-9]*) need "$cpp" has_cpp "$cpp" ;;
    *) need g++ has_cpp "$cpp" ;; # clang uses its library
    esac
}
build_tools() {
    compiler
    need make has_make make
    need cmake has_cmake cmake 3.22
}
for_demo() {
    build_tools
    need libopenblas0-pthread has_openblas ""
}
for_models() {
    for_demo
    need libjansson-dev has_jansson "$c"
    need libutf8proc-dev has_utf8proc "$c"
    need zlib1g-dev has_zlib "$c"
    need libzstd-dev has_zstd "$c"
}
for_mpi() {
    for_models
    need libopenmpi-dev has_mpi mpicc
    need openmpi-bin has_mpirun mpirun
}
for_suites() {
    cpp_compiler
    need binutils has_binutils objdump
    need pkg-config has_pkg_config pkg-config
    need check has_check pkg-config
    need librandom123-dev has_random123 "$c"
    need libpcre2-dev has_pcre2 "$c"
}
for_matrix() {
    for_models
    for_suites
    need ninja-build has_ninja ninja
    case $c in
    clang-[0-9]*) need "lld-${c#clang-} llvm-${c#clang-}" has_clang_lto "$c" ;;
    esac
}
for_test() {
    for_mpi
    for_suites
    need clang has_clang clang
    need libomp-dev has_clang_openmp clang
    need libclang-rt-dev has_thread_sanitizer clang
    need clang-format has_clang_format clang-format
    need valgrind has_valgrind valgrind
    need doxygen has_doxygen doxygen
    need libopenblas0-openmp has_openblas_openmp ""
    need strace has_strace strace
    need spin has_spin spin
    need cppcheck has_cppcheck cppcheck
    need pandoc has_pandoc pandoc
}
for_audit() {
    for_test
    need python3 has_python python3
    need libclang-rt-dev has_fuzzer clang
    need clang-tidy has_clang_tidy clang-tidy
    need gcovr has_gcovr gcovr
    need git has_git git
    need libgtest-dev has_googletest g++
    need abigail-tools has_abidiff abidiff
    need libmpich-dev has_mpich mpicc.mpich
    need mpich has_mpirun_of_mpich mpirun.mpich
}
for_interop() {
    for_models
    need python3 has_python python3
    need python3-venv has_venv python3
}
for_bench() {
    for_interop
    cpp_compiler
    need python3-dev has_python_header python3
}
for_browser() {
    for_demo
    need python3 has_python python3
    need chromium has_chromium chromium
    need chromium-driver has_chromium_driver chromedriver
    need python3-selenium has_selenium /usr/bin/python3
    need fonts-dejavu-core has_fonts ""
    need fonts-wqy-microhei has_chinese_font fc-list
    need pandoc has_pandoc pandoc
}
for_tiles() {
    for_demo
    cpp_compiler
    need xz-utils has_xz xz
    need cpio has_cpio cpio
    need xorriso has_xorriso xorriso
}
for_cross() {
    build_tools
    need g++-aarch64-linux-gnu has_cpp "$cpp"
    need python3 has_python python3
    need qemu-user has_qemu qemu-aarch64
    need pkg-config has_pkg_config pkg-config
    need librandom123-dev has_random123 "$c"
}
for_mca() {
    for_cross
    need llvm-19 has_mca llvm-mca-19
}
for_musl() {
    build_tools
    need ninja-build has_ninja ninja
    need g++ has_cpp "$cpp"
    need dpkg-dev has_dpkg_source dpkg-source
    need linux-libc-dev has_kernel_headers gcc
    need pkg-config has_pkg_config pkg-config
    need librandom123-dev has_random123_of_gcc gcc
}
for_mingw() {
    build_tools
    need gcc-mingw-w64-x86-64-win32 has_mingw x86_64-w64-mingw32-gcc
    need "wine wine64" has_wine wine
    need dpkg-dev has_dpkg_source dpkg-source
    need python3 has_python python3
}
for_zig() {
    need python3 has_python python3
    need python3-venv has_venv python3
    for machine in aarch64:arm64 riscv64:riscv64 powerpc64le:ppc64el; do
        c=${machine%:*}-linux-gnu-gcc
        need "gcc-${machine%:*}-linux-gnu libc6-dev-${machine#*:}-cross" has_c_of_machine "$c"
    done
    need qemu-user has_qemu qemu-aarch64
    need "wine wine64" has_wine wine
}
for_class() {
    need emscripten has_emcc emcc
    need nodejs has_node node
    need gcc has_gcc_vectors gcc 11
    need make has_make make
    need cmake has_cmake cmake 3.22
    need dpkg-dev has_dpkg_source dpkg-source
    need pkg-config has_pkg_config pkg-config
    need librandom123-dev has_random123_of_gcc gcc
}
for_site() {
    for_demo
    need pandoc has_pandoc pandoc
}
for_release() {
    need git has_git git
    need doxygen has_doxygen doxygen
    need python3 has_python python3
}
for_root() {
    need debootstrap has_debootstrap debootstrap
}
for_package() {
    for_root
    need git has_git git
    need diffoscope-minimal has_diffoscope diffoscope
}

# missing [why]: prints the packages that are missing; with "why", the reasons go to standard error.
missing() {
    why=${1:-}
    "for_$tier"
}

packages=$(missing)
[ -n "$packages" ] || exit 0

# -- installation --

echo "Missing for Tapehead's $tier:$packages" >&2
if ! command -v apt-get >/dev/null; then
    missing why >/dev/null
    echo "There is no apt-get here. Please install these packages (the names are Debian's) yourself." >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    missing why >/dev/null
    echo "Please install them as root:  apt-get install$packages" >&2
    exit 1
fi
echo "Installing them with ${as_root:+$as_root }apt-get." >&2

apt() { # sudo removes the variables of a proxy
    $as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
        ${all_proxy:+"all_proxy=$all_proxy"} ${no_proxy:+"no_proxy=$no_proxy"} "$@" </dev/null
}

# get OPTION...: runs apt-get. Waits at most five minutes for other installations, and completes an interrupted one first.
get() {
    tries=60
    until problem=$({ apt apt-get -q "$@" 2>&1 >&3; } 3>&2); do
        tries=$((tries - 1))
        case $tries:$problem in
        0:*) ;;
        *"Could not get lock"*)
            [ "$tries" -lt 59 ] || echo "Another process is installing packages: waiting for it." >&2
            sleep 5
            continue
            ;;
        *"dpkg --configure -a"*) ! apt dpkg --configure -a >&2 || continue ;;
        esac
        printf '%s\n' "$problem" >&2
        return 1
    done
    [ -z "$problem" ] || printf '%s\n' "$problem" >&2
}
get update || echo "The package lists could not be updated; trying with the present ones." >&2
# shellcheck disable=SC2086 # a list of words
get install -y --no-install-recommends $packages || {
    echo "apt-get could not install$packages." >&2
    exit 1
}

packages=$(missing why)
if [ -n "$packages" ]; then
    echo "Installed, but still not usable:$packages (the reasons are above)" >&2
    exit 1
fi
