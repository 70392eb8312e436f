#!/bin/sh
# found.sh LIBRARY OUT: checks the operations of torch, jax, autograd, tinygrad, mlx, paddle or ggml, and writes a CSV with their verdicts.
# Installs the library and the checker into ~/.cache/tapehead/found once. docs/found.md describes the results.
# ggml is the CPU part of the sources that the package llama-cpp-python contains; it needs cmake and a compiler for C++.
set -eu
root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
case ${1-} in
-*) refuse "$1 is not an option" ;;
esac
[ $# -eq 2 ] || refuse "expected LIBRARY OUT, there are $# arguments"
case $1 in
torch) packages="torch==2.13.0 numpy expecttest scipy" ;;
jax) packages="jax==0.10.2" ;;
autograd) packages="autograd==1.9.1 scipy" ;;
tinygrad) packages="tinygrad==0.14.0 numpy" ;;
mlx) packages="mlx[cpu]==0.32.4 numpy" ;;
paddle) packages="paddlepaddle==3.3.1 numpy" ;;
ggml) packages= ;;
*) refuse "the library is torch, jax, autograd, tinygrad, mlx, paddle or ggml, not $1" ;;
esac
environment=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/found/$1

# Downloads llama-cpp-python's sources and builds ggml for the CPU.
build_ggml() {
    rm -rf "$environment"
    mkdir -p "$environment"
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$environment" llama-cpp-python==0.3.36
    tar -xzf "$environment"/llama_cpp_python-*.tar.gz -C "$environment" --strip-components 1
    touch "$environment/vendor/llama.cpp/ggml/ggml.pc.in" # the package lacks this file, which cmake copies
    cmake -S "$environment/vendor/llama.cpp/ggml" -B "$environment/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DGGML_OPENMP=OFF -DGGML_LLAMAFILE=OFF -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF
    cmake --build "$environment/build" --target ggml-cpu --parallel
    touch "$environment/complete"
}

if [ "$1" = ggml ]; then
    [ -e "$environment/complete" ] || build_ggml
    ggml="$environment/vendor/llama.cpp/ggml"
    "$root/scripts/amalgamate.sh" --check "$environment/check"
    version=$(sed -n 's/^ *set(GGML_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)).*/\2/p' "$ggml/CMakeLists.txt" | paste -sd .)
    for program in example operations; do
        cc -O1 -w "-DGGML_VERSION_TEXT=\"$version\"" "-I$ggml/include" "-I$environment/check" \
            "$root/scripts/found/ggml/$program.c" "$environment/check/tapehead_check.c" "$environment/build/src/libggml-cpu.a" \
            "$environment/build/src/libggml-base.a" -lstdc++ -lpthread -lm -o "$environment/$program"
    done
    "$environment/example"
    GGML_NO_BACKTRACE=1 exec "$environment/operations" "$2"
fi
if [ ! -e "$environment/complete" ]; then
    python3 -m venv --clear "$environment"
    # shellcheck disable=SC2086
    "$environment/bin/pip" install --quiet $packages
    touch "$environment/complete"
fi
"$environment/bin/pip" install --quiet --force-reinstall "$root/python"
OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" "$root/scripts/found/$1_ops.py" "$2"
