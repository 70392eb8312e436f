#!/bin/sh
# debian.sh SOURCE VERSION SOVERSION: debian/ agrees with the sources: the version, the names of the packages, and the symbols of the
# libraries. (tests/abi.sh and tests/symbols.sh compare the lists in abi/ with the headers and the libraries.)
set -eu
. "$(dirname "$(readlink -f "$0")")/package_checks.sh"
cd "$1"
version=$2 soversion=$3

sed -n 1p debian/changelog | grep -qF "tapehead ($version-" || wrong "the first entry of debian/changelog is not of version $version"
for library in tapehead tapehead_models; do
    package=lib$(printf %s "$library" | tr _ -)$soversion
    grep -qx "Package: $package" debian/control || wrong "debian/control has no package $package"
    symbols=debian/$package.symbols
    if [ ! -e "$symbols" ]; then
        wrong "there is no $symbols"
        continue
    fi
    sed -n 1p "$symbols" | grep -q "^lib$library.so.$soversion " || wrong "$symbols does not begin with the soname"
    sed -n '/^[a-z].*);$/p' "abi/lib$library.txt" | grep -v '^typedef' | sed -E 's/^[^(]*\b(th_[a-z0-9_]+)\(.*/\1/' | sort >"$work/declared"
    sed -n 's/^ \(th_[a-z0-9_]*\)@Base .*/\1/p' "$symbols" | sort >"$work/symbols"
    [ -s "$work/declared" ] || wrong "abi/lib$library.txt has no function"
    diff "$work/declared" "$work/symbols" >"$work/difference" ||
        wrong "$symbols differs from abi/lib$library.txt (<):" "$(grep '^[<>]' "$work/difference")"
done
core=debian/libtapehead$soversion.symbols
if [ -e "$core" ]; then
    grep -qF "(symver)TAPEHEAD_PRIVATE_$version $version 1" "$core" || wrong "$core does not have TAPEHEAD_PRIVATE_$version"
    grep -qF "| libtapehead$soversion (>= $version)" "$core" || wrong "$core does not demand version $version for private functions"
fi
[ $status -ne 0 ] || echo "debian/ has version $version and all symbols"
exit $status
