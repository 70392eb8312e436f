# package_checks.sh: what the tests of libraries, headers and packages share. A test sources it, and ends with `exit $status`.
# shellcheck shell=sh

# `work` is a temporary directory.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# wrong SENTENCE...: prints what is wrong; the test fails at its end.
wrong() {
    printf '%s\n' "$*"
    status=1
}

# declared MARK FILE...: prints the functions with this mark. A declaration starts with the mark; the name is the word before
# the first opening parenthesis.
declared() {
    mark=$1
    shift
    cat "$@" | tr '\n' ' ' | grep -oE "$mark [^(;]*\bth_[a-z0-9_]+\(" | sed -E 's/.*\b(th_[a-z0-9_]+)\($/\1/' | sort -u
}

# models_headers INCLUDE: prints the headers of the models library, those that tapehead/models.h includes. All others but that one
# belong to the core.
models_headers() {
    sed -n 's|^#include "\(tapehead/.*\)"$|\1|p' "$1/tapehead/models.h" | grep -vx tapehead/core.h
}

# soversion VERSION: prints the number in the sonames of this version: with the minor version until 1.0.
soversion() {
    case $1 in
    0.*) echo "${1%.*}" ;;
    *) echo "${1%%.*}" ;;
    esac
}

# read_version: sets `version` and `soversion` to those of the sources in the current directory.
read_version() {
    version=$(sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
    soversion=$(soversion "$version")
}

# changelog_dates: prints version and date of the sections of CHANGELOG.md that have a date.
changelog_dates() {
    sed -nE 's/^## \[([0-9.]+)\] - ([0-9]{4}-[0-9]{2}-[0-9]{2})$/\1 \2/p' CHANGELOG.md
}

# debian_package LIBRARY [SOVERSION]: prints the name of the library's package, such as libtapehead0.3.
debian_package() {
    printf 'lib%s%s\n' "$(printf %s "$1" | tr _ -)" "${2:-$soversion}"
}

# debian_symbols LIBRARY: prints what the package's file of symbols must contain: the functions of abi/. A function keeps the version
# that it has in the file; a new one gets the present version.
debian_symbols() {
    package=$(debian_package "$1")
    echo "lib$1.so.$soversion $package #MINVER#"
    if [ "$1" = tapehead ]; then
        echo "| $package (>= $version), $package (<< ${version%.*}.$((${version##*.} + 1))~)"
        echo "* Build-Depends-Package: libtapehead-dev"
        echo " (symver)TAPEHEAD_PRIVATE_$version $version 1"
    else
        echo "* Build-Depends-Package: libtapehead-models-dev"
    fi
    echo " TAPEHEAD_$soversion@TAPEHEAD_$soversion ${version%.*}.0"
    sed -nE '/^typedef/d; s/^[a-z][^(]*\b(th_[a-z0-9_]+)\(.*\);$/\1@TAPEHEAD_'"$soversion/p" "abi/lib$1.txt" | sort |
        awk -v version="$version" 'FILENAME != "-" { known[$1] = $2; next }
            { print " " $1, $1 in known ? known[$1] : version }' "$(find debian -name "$package.symbols" | grep . || echo /dev/null)" -
}
