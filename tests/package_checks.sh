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
