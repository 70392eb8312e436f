#!/bin/sh
# recipes.sh --url URL [--homepage URL] ARCHIVE OUT: writes the recipes of packaging/ for the archive of a release (release.sh) to the
# folder OUT, with the version, the address and the checksums of the archive:
#   OUT/conan   for Conan: conan create OUT/conan
#   OUT/vcpkg   a port of vcpkg: vcpkg install tapehead --overlay-ports=OUT/vcpkg
#   OUT/alpine  for Alpine Linux: abuild in OUT/alpine
# URL is the address of the archive. The homepage is by default the address without the archive's name.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
url='' homepage=''
while [ $# -gt 0 ]; do
    case $1 in
    --url | --homepage)
        need_value "$@"
        if [ "$1" = --url ]; then url=$2; else homepage=$2; fi
        shift
        ;;
    -*) refuse "$1 is not an option" ;;
    *) break ;;
    esac
    shift
done
[ $# -eq 2 ] || refuse "an archive and a folder are needed, and $# words are given"
[ -n "$url" ] || refuse "--url URL is missing: where users download the archive"
archive=$1 out=$2 version=$(version)
[ -f "$archive" ] || refuse "$archive is not a file"
name=$(basename "$archive")
[ "$name" = "tapehead-$version.tar.gz" ] || refuse "the archive is $name, and this checkout has version $version: tapehead-$version.tar.gz"
homepage=${homepage:-${url%/*}}

sha256=$(sha256sum "$archive" | cut -d ' ' -f 1) sha512=$(sha512sum "$archive" | cut -d ' ' -f 1)
for recipe in conan vcpkg alpine; do
    mkdir -p "$out/$recipe"
    (cd "$root/packaging/$recipe" && find . -type f) | while read -r file; do
        mkdir -p "$(dirname "$out/$recipe/$file")"
        sed -e "s|@VERSION@|$version|g; s|@URL@|$url|g; s|@HOMEPAGE@|$homepage|g; s|@SHA256@|$sha256|g; s|@SHA512@|$sha512|g" \
            "$root/packaging/$recipe/$file" >"$out/$recipe/$file"
    done
    print_written "$out/$recipe"
done
