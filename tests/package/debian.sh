#!/bin/sh
# debian.sh SOURCE: debian/ agrees with the sources: the version, the names of the packages, and the symbols of the libraries.
# (tests/package/abi.sh and tests/package/symbols.sh compare the lists in abi/ with the headers and the libraries. `tests/package/abi.sh . cc write` writes the
# symbols.)
set -eu
. "$(dirname "$(readlink -f "$0")")/package_checks.sh"
cd "$1"
export LC_ALL=C
read_version

sed -n 1p debian/changelog | grep -qF "tapehead ($version-" || wrong "the first entry of debian/changelog is not of version $version"
for library in tapehead tapehead_models; do
    package=$(debian_package "$library")
    grep -qx "Package: $package" debian/control || wrong "debian/control has no package $package"
    [ -e "debian/$package.install" ] || wrong "there is no debian/$package.install"
    debian_symbols "$library" >"$work/symbols"
    [ "$(wc -l <"$work/symbols")" -gt 50 ] || wrong "abi/lib$library.txt has too few functions"
    diff "$work/symbols" "debian/$package.symbols" >"$work/difference" 2>&1 ||
        wrong "debian/$package.symbols is not as expected (<):" "$(cat "$work/difference")"
done
# Sonames and packages of other versions in pages, packages and the build.
grep -rnoE 'libtapehead(_models\.so\.|\.so\.|-models)?[0-9]+(\.[0-9]+)?' README.md CONTRIBUTING.md docs cmake debian/control debian/*.install |
    grep -vE "[a-z.]$(echo "$soversion" | sed 's/\./\\./')\$" >"$work/others" || true
[ ! -s "$work/others" ] || wrong "these names are not of version $soversion:" "$(cat "$work/others")"
[ $status -ne 0 ] || echo "debian/ has version $version and all symbols"
exit $status
