#!/bin/sh
# release.sh [--output DIR] [--without-reference] [--without-site]: makes the archive that users download, tapehead-VERSION.tar.gz,
# and tapehead-class-VERSION.tar.gz: the class as a folder for a web server, with class.html (scripts/site.sh). Beside each is a file
# with its SHA-256. The archive has all files of the commit, the core library as two files in examples/two_files (amalgamate.sh), and
# the generated reference of the headers in docs/reference. Building from it needs no git. Needs Python 3. One commit always gives the
# same bytes (with one version of doxygen and of gzip). Options:
#   --output DIR         writes into this directory; the default is build-release/ in the checkout
#   --without-reference  leaves out docs/reference and does not need doxygen
#   --without-site       does not make the second archive, which needs emscripten and pandoc, and takes minutes
# Fails if the checkout has changes that are not committed, if CHANGELOG.md has no section of the version with a date or has unreleased
# lines, or if abi/releases.txt does not have this version and date, or has them with another commit.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
output=$root/build-release reference=yes site=yes
while [ $# -gt 0 ]; do
    case $1 in
    --output)
        need_value "$@"
        output=$2
        shift
        ;;
    --without-reference) reference= ;;
    --without-site) site= ;;
    *) refuse "$1 is not an option" ;;
    esac
    shift
done

fail() {
    printf 'release.sh: %s\n' "$*" >&2
    exit 1
}
here() { # here COMMAND [ARGUMENT...]: runs this git command in the checkout
    git -C "$root" "$@"
}

# -- the commit --

[ "$(here rev-parse --show-prefix 2>/dev/null || echo none)" = "" ] || skip "$root is not a git checkout"
version=$(version)
changes=$(here status --porcelain)
[ -z "$changes" ] || fail "these files are not committed:
$changes"
date=$(sed -nE "s/^## \\[$version\\] - ([0-9]{4}-[0-9]{2}-[0-9]{2})\$/\\1/p" "$root/CHANGELOG.md")
[ -n "$date" ] || fail "CHANGELOG.md has no section with a date of version $version, such as \"## [$version] - $(date +%Y-%m-%d)\""
unreleased=$(sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/p' "$root/CHANGELOG.md" | grep -v '^## \[' | grep . || true)
[ -z "$unreleased" ] || fail "CHANGELOG.md has lines under Unreleased: move them to version $version"

release=$(sed -n "s/^$version //p" "$root/abi/releases.txt")
case $release in
'') fail "abi/releases.txt does not have version $version: tests/package/abi.sh . cc release writes it" ;;
"$date -") ;;
"$date "*) fail "version $version was released with commit ${release#* }: check it out, or raise the version in CMakeLists.txt" ;;
*) fail "version $version has the date $date in CHANGELOG.md, but ${release%% *} in abi/releases.txt" ;;
esac

# -- the archive --

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
umask 022
export LC_ALL=C TZ=UTC
unset TAR_OPTIONS GZIP
name=tapehead-$version
mkdir "$work/$name"
here -c core.autocrlf=false archive HEAD >"$work/commit.tar"
tar -x -C "$work/$name" -f "$work/commit.tar"

"$root/scripts/amalgamate.sh" "$work/$name/examples/two_files" 2>/dev/null

if [ -n "$reference" ]; then
    "$root/scripts/setup.sh" release
    "$work/$name/docs/reference.sh" "$work/$name" "$work/$name/docs/reference"
fi

# pack NAME: makes NAME.tar.gz from this folder, and the file with its SHA-256.
pack() {
    tar -C "$work" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$(here log -1 --format=%ct)" \
        -cf "$work/$1.tar" "$1"
    gzip -9n "$work/$1.tar"
    (cd "$work" && sha256sum "$1.tar.gz" >"$1.tar.gz.sha256")
}
pack "$name"
set -- "$name"
if [ -n "$site" ]; then # built from the files of the archive
    "$work/$name/scripts/site.sh" "$work/tapehead-class-$version" >/dev/null
    pack "tapehead-class-$version"
    set -- "$@" "tapehead-class-$version"
fi
mkdir -p "$output"
for archive; do
    mv "$work/$archive.tar.gz" "$work/$archive.tar.gz.sha256" "$output/"
    print_written "$output/$archive.tar.gz" "$output/$archive.tar.gz.sha256"
done
