#!/bin/sh
# releases.sh SOURCE CC: after a release tests/package/abi.sh accepts no change of a type, a function or an enumerator without a new soname, and
# no later commit with the version of the release. Writing the lists again does not help. The test releases a copy of the sources.
set -eu
. "$(dirname "$(readlink -f "$0")")/package_checks.sh"
cc=$2
cd "$1"
mkdir "$work/copy"
tar -c CMakeLists.txt CHANGELOG.md abi debian include tests/package/abi.sh tests/package/abi_list.awk tests/package/package_checks.sh \
    $(grep -rl --include='*.h' '^TH_PRIVATE_API' src) | tar -x -C "$work/copy"
cd "$work/copy"

abi() { # abi [ACTION]
    tests/package/abi.sh . "$cc" "$@" >"$work/said" 2>&1
}
accepts() { # accepts WHAT
    abi write || wrong "$1 is refused:" "$(cat "$work/said")"
}
refuses() { # refuses SENTENCE: fails with this message, with the lists of this state of the headers
    if abi write; then
        wrong "accepted, without the message: $1"
    else
        grep -F -e "$1" "$work/said" >/dev/null || wrong "the message is not \"$1\", but:" "$(cat "$work/said")"
    fi
}
change() { # change HEADER EXPRESSION: changes the header by sed and keeps the old one as `original`.
    changed=include/tapehead/$1
    cp "$changed" "$work/original"
    sed -i "$2" "$changed"
    ! cmp -s "$changed" "$work/original" || wrong "$1 has no place for this change: $2"
}
undo() {
    cp "$work/original" "$changed"
}
raise() { # raise VERSION
    sed -i "s/^project(tapehead VERSION [0-9.]*/project(tapehead VERSION $1/" CMakeLists.txt
}

# A release of version 77.0.0 or 0.77.0.
release() {
    raise "$1"
    sed -i "/^## \\[Unreleased\\]/a\\\n## [$1] - 2020-02-02" CHANGELOG.md
    abi release || wrong "the release of $1 fails:" "$(cat "$work/said")"
    [ -e "abi/$1/libtapehead.txt" ] && grep -qx "$1 2020-02-02 -" abi/releases.txt || wrong "abi/ does not have the release $1"
}

accepts "the present state"
release 0.77.0
accepts "an unchanged release"
change context.h 's/^} th_context_options;/    int more;\n&/'
refuses "release 0.77.0 has these declarations, and the soname is still libtapehead.so.0.77"
undo
change base.h 's/TH_ERROR_FILE,/& TH_ERROR_MORE,/'
refuses "release 0.77.0 has these declarations"
undo
raise 0.77.1
change tokenizer.h 's/^TH_API void th_tokenizer_free(th_tokenizer \*/TH_API int th_tokenizer_free(th_tokenizer */'
refuses "release 0.77.0 has these declarations, and the soname is still libtapehead_models.so.0.77"
undo
change context.h 's/^TH_API int th_team_size/TH_API int th_more(void);\n&/'
refuses "release 0.77.0 does not have these declarations of libtapehead, and 0.77.1 is not a new minor version"
undo
raise 0.78.0
change context.h 's/^} th_context_options;/    int more;\n&/'
accepts "a new member with a new soname"
undo
raise 0.77.0
sed -i 's/^0.77.0 2020-02-02 -/0.77.0 2020-02-02 0123456789/' abi/releases.txt
refuses "0.77.0 was released with commit 0123456789. The version in CMakeLists.txt must be higher, but is 0.77.0"

release 77.0.0
raise 77.1.0
change context.h 's/^TH_API int th_team_size/TH_API int th_more(void);\n&/'
accepts "a new function in a minor version after 1.0"
grep -qx ' th_more@TAPEHEAD_77 77.1.0' debian/libtapehead77.symbols && grep -qx ' th_abs@TAPEHEAD_77 77.0.0' debian/libtapehead77.symbols ||
    wrong "the symbols do not have the versions in which functions appeared"
undo
change context.h 's/^} th_context_options;/    int more;\n&/'
refuses "release 77.0.0 has these declarations, and the soname is still libtapehead.so.77"
undo
sed -i 's/2020-02-02$/2020-02-03/' CHANGELOG.md
refuses "the dated sections of CHANGELOG.md (<) differ from abi/releases.txt (>)"
[ $status -ne 0 ] || echo "every change after a release is found"
exit $status
