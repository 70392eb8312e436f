#!/bin/sh
# deb.sh [OPTION...] [12|13]: builds the Debian packages that debian/ describes, and tries them.
#
# The steps run in copies of a minimal root of Debian 12 (the default) or 13:
#   build        builds the source package and all binary packages as a user, and runs the quick tests
#   lintian      finds no error and no warning
#   again        builds them again: another user, folder, time zone, locale and umask. All files must be identical
#   remove       installs the packages and removes them. No file remains
#   autopkgtest  runs the tests in debian/tests with the installed packages
# --output DIR     leaves the packages in this directory; the default is build-packages/ in the checkout
# --commit REV     builds this commit instead of HEAD
# --archive FILE   builds from this archive (scripts/platforms/release.sh)
# --build-only     leaves out all steps but the first
# Exits with 77 and prints the reason if it cannot make a root (scripts/platforms/bare_root.sh --help). The roots and the downloaded packages stay in
# $XDG_CACHE_HOME/tapehead.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/scripts/library/help.sh"
. "$here/scripts/library/root.sh"
release=12 commit=HEAD output=$here/build-packages build_only=

answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    12 | 13) release=$1 ;;
    --build-only) build_only=yes ;;
    --output | --commit | --archive)
        need_value "$@"
        case $1 in
        --output) output=$2 ;;
        --archive) [ -f "$2" ] || refuse "there is no archive $2" ;;
        esac
        [ "$1" = --output ] || commit=$2
        shift
        ;;
    *) refuse "$1 is not an option or a release of Debian" ;;
    esac
    shift
done

umask 022
fail() {
    printf 'deb.sh: %s\n' "$*" >&2
    exit 1
}
# step NAME USER COMMAND...: runs it in the copy of the root and prints the outcome in a line; ends the script if it fails.
step() {
    title=$1
    shift
    start=$(date +%s)
    status=0
    inside "$@" >"$work/$title.log" 2>&1 || status=$?
    keep_packages
    if [ $status -ne 0 ]; then
        tail -n 60 "$work/$title.log"
        fail "$title failed"
    fi
    say "$title: passed, $(($(date +%s) - start)) s"
}
# prepare PACKAGE...: makes a fresh copy of the root with these packages.
prepare() {
    fresh_copy
    step prepare root sh -ec 'apt-get -q update && apt-get -q install -y --no-install-recommends "$@"' sh "$@"
}

# -- the source package: an original archive without debian/, and debian/ --

need_roots "$here" "$commit"
"$here/scripts/setup.sh" package
choose_release "$release"
say "$tried"
mkdir "$work/source"
sources | tar -x -C "$work/source" --strip-components=1 --wildcards '*/debian'
version=$(sed -n '1s/^tapehead (\(.*\)-[^-]*).*/\1/p' "$work/source/debian/changelog")
[ -n "$version" ] || fail "the first line of debian/changelog has no version"
sources | tar --delete --wildcards -f - '*/debian' | gzip -9n >"$work/source/tapehead_$version.orig.tar.gz"

# -- build, lintian, again --

# build FOLDER UMASK: the commands of a packager. (The source package has the modes of the files in debian/, so the umask comes later.)
# shellcheck disable=SC2016 # variables of the inner shell
build='mkdir -p "$1/tapehead" && cd "$1" && cp /source/tapehead_*.orig.tar.gz . && cd tapehead &&
    tar -xf ../*.orig.tar.gz --strip-components=1 && cp -R /source/debian . && umask "$2" && dpkg-buildpackage -us -uc'

prepare build-essential lintian locales
cp -R "$work/source" "$work/root/"
step build-dependencies root sh -ec 'apt-get -q build-dep -y --no-install-recommends . && localedef -i tr_TR -f UTF-8 tr_TR.UTF-8'
step build user env LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS="parallel=$(nproc)" sh -c "$build" sh /home/user/packages 022
mkdir -p "$output" "$work/first" "$work/second"
cp "$work/root/home/user/packages"/tapehead_* "$work/root/home/user/packages"/*.deb "$work/first/"
cp "$work/first"/* "$output/"
grep -E '^[0-9]+% tests passed|tests failed' "$work/build.log" || true

if [ -z "$build_only" ]; then
    # A first upload to Debian closes a bug that announces the package. These packages are not uploaded.
    step lintian user sh -c 'cd ~/packages && lintian --display-info --pedantic --fail-on error,warning \
        --suppress-tags initial-upload-closes-no-bugs ./*.changes'
    cat "$work/lintian.log"
    chroot "$work/root" useradd --create-home other
    mkdir "$work/root/home/other/tapehead"
    step again other env LC_ALL=tr_TR.UTF-8 TZ=Pacific/Kiritimati DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" \
        sh -c "$build" sh "/home/other/another-folder" 002
    for file in "$work/first"/*.deb "$work/first"/*.dsc "$work/first"/*.debian.tar.xz; do
        cp "$work/root/home/other/another-folder/$(basename "$file")" "$work/second/"
        diffoscope "$file" "$work/second/$(basename "$file")" || fail "$(basename "$file") is different in a second build"
    done
    say "$(find "$work/second" -type f | wc -l) packages and source files are identical in both builds"
fi

# -- remove, autopkgtest --

# Lists all files, except those that apt and dpkg keep for themselves.
# shellcheck disable=SC2016
files='find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /root -o -path /var/cache -o -path /var/log \
    -o -path /var/lib/apt -o -path "/var/lib/dpkg/*-old" \) -prune -o -print | sort'

# shellcheck disable=SC2016
install_and_remove="cd
    names=\$(for package in packages/*.deb; do dpkg-deb -f \"\$package\" Package; done)
    $files >before
    apt-get -q install -y --no-install-recommends ./packages/*.deb
    ldconfig -p | grep 'libtapehead_models.so.0'
    apt-get -q purge -y \$names
    apt-get -q autoremove -y --purge
    $files >after
    diff before after"

# copy_packages: into the copy of the root.
copy_packages() {
    mkdir "$work/root/root/packages"
    cp "$work/first"/* "$work/root/root/packages/"
    rm "$work/root/root/packages"/*-dbgsym_*
}

if [ -z "$build_only" ]; then
    prepare ca-certificates
    copy_packages
    step remove root sh -ec "$install_and_remove"

    prepare autopkgtest
    copy_packages
    # Status 2 means that a test was skipped, for example on a processor without fused multiply-add.
    step autopkgtest root sh -c 'cd ~/packages && autopkgtest ./*.deb ./*.dsc -- null || [ $? -eq 2 ]'
    grep -E '^[a-z]+ +(PASS|FAIL|SKIP)' "$work/autopkgtest.log" | sort -u
fi
print_written "$output"/*.deb "$output"/*.dsc
