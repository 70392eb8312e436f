#!/bin/sh
# isas.sh SOURCE CMAKE CC: the option TAPEHEAD_ISAS. It refuses unknown names, "native" selects one instruction set, and a list
# compiles exactly these. Each kernel is compiled with the same command in every build, so the bits are the same.
set -eu
source=$1 cmake=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

configure() { # configure BUILD ISAS
    "$cmake" -S "$source" -B "$work/build" "-DCMAKE_C_COMPILER=$cc" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTAPEHEAD_MODELS=OFF \
        -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF "-DTAPEHEAD_ISAS=$2" >"$work/$1.log" 2>&1 || return 1
    sed -n 's/^ *"command": //p' "$work/build/compile_commands.json" | grep 'DTH_INSTANCE=' | sort >"$work/$1"
}
instances() { # the instruction sets of a build
    sed -n 's/.*-DTH_INSTANCE=f32_\([a-z0-9]*\).*/\1/p' "$work/$1" | sort -u | tr '\n' ' '
}
fail() {
    cat "$work"/*.log
    echo "$*"
    exit 1
}

configure all all || fail "TAPEHEAD_ISAS=all is refused"
every=$(instances all)
configure native native || fail "TAPEHEAD_ISAS=native is refused"
case $(instances native) in
"" | *baseline*avx*) fail "native compiles: $(instances native)" ;;
esac
[ -z "$(comm -13 "$work/all" "$work/native")" ] || fail "native compiles kernels with other commands"
case $every in
*avx2*)
    configure two "avx2;baseline" || fail "a list is refused"
    [ "$(instances two)" = "avx2 baseline " ] || fail "avx2;baseline compiles: $(instances two)"
    [ -z "$(comm -13 "$work/all" "$work/two")" ] || fail "a list compiles kernels with other commands"
    ;;
esac
for wrong in sse9 "native;avx2" ";"; do
    ! configure wrong "$wrong" || fail "TAPEHEAD_ISAS=$wrong is accepted"
    grep "TAPEHEAD_ISAS is \"$wrong\"; it must be all, native or a list" "$work/wrong.log" >/dev/null || fail "$wrong: no sentence"
done
echo "all: $every; native: $(instances native)"
