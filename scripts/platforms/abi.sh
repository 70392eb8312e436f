#!/bin/sh
# abi.sh [REVISION]: builds the libraries of an earlier release and of this checkout, and compares their binary interfaces with
# abidiff. Without REVISION takes the last release in abi/releases.txt. Prints the report. Fails if a library has an incompatible
# change and the same soname. New functions are compatible; private functions do not count (docs/abi.md).
# The builds stay in build-abi/ in the checkout.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
[ $# -le 1 ] || refuse "$2 is one revision too many"

case ${1:-} in
-*) refuse "$1 is not an option" ;;
'') revision=$(awk '!/^#/ && $3 != "-" { commit = $3 } END { print commit }' "$root/abi/releases.txt") ;;
*) revision=$1 ;;
esac
if ! commit=$(git -C "$root" rev-parse --verify --quiet "$revision^{commit}"); then
    [ $# -eq 0 ] || refuse "$revision is not a commit of this checkout"
    skip "this checkout does not have the commit $revision of the last release"
fi
"$root/scripts/setup.sh" audit
work=$root/build-abi
status=0

# build SOURCE BUILD: builds the shared libraries with their types.
build() {
    cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Debug -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF >"$work/log" 2>&1 &&
        cmake --build "$2" --parallel "$(nproc)" --target tapehead tapehead_models >>"$work/log" 2>&1 || {
        tail -n 20 "$work/log"
        echo "$1 cannot be built"
        exit 1
    }
}

soname() { # soname LIBRARY
    readelf -d "$1" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p'
}

mkdir -p "$work"
if [ "$(cat "$work/commit" 2>/dev/null)" != "$commit" ]; then
    rm -rf "$work/commit" "$work/earlier" "$work/earlier-build"
    mkdir "$work/earlier"
    git -C "$root" archive "$commit" >"$work/earlier.tar"
    tar -x -C "$work/earlier" -f "$work/earlier.tar"
    rm "$work/earlier.tar"
    echo "$commit" >"$work/commit"
fi
echo "Building $revision and this checkout" >&2
build "$work/earlier" "$work/earlier-build"
build "$root" "$work/present-build"

# compare [OPTION...]: compares the library `name` of the two builds. Only types of the public headers count.
compare() {
    abidiff --headers-dir1 "$work/earlier/include" --headers-dir2 "$root/include" --suppressions "$root/abi/private.suppressions" "$@" \
        "$work/earlier-build/$name.so" "$work/present-build/$name.so"
}

for name in libtapehead libtapehead_models; do
    earlier=$(soname "$work/earlier-build/$name.so") present=$(soname "$work/present-build/$name.so")
    printf '== %s: %s in %s, %s in this checkout\n' "$name" "$earlier" "$revision" "$present"
    changed=0
    compare || changed=$?
    if [ $((changed & 3)) -ne 0 ]; then
        echo "abidiff fails"
        status=1
    elif [ "$changed" -eq 0 ]; then
        echo "no change"
    elif compare --no-added-syms >/dev/null; then
        echo "compatible: functions were added"
    elif [ "$earlier" != "$present" ]; then
        echo "the soname has changed: incompatible changes are permitted"
    else
        echo "INCOMPATIBLE, and the soname is still $present: raise the version in CMakeLists.txt, or take the change back"
        status=1
    fi
done
exit $status
