#!/bin/sh
# recipes.sh SOURCE: scripts/platforms/recipes.sh writes the version of the build, the address and the checksums of the archive into the recipes
# for Conan, vcpkg and Alpine. The files are valid: JSON, Python, shell. An archive of another version is refused. (The package managers do
# not run: docs/internals/releases.md has the commands.)
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
wrong() {
    printf '%s\n' "$*"
    status=1
}

version=$(sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
archive=$work/tapehead-$version.tar.gz url=https://download.example/tapehead-$version.tar.gz
echo content >"$archive"
recipes() {
    "$source/scripts/platforms/recipes.sh" "$@" >"$work/said" 2>&1
}
recipes --url "$url" "$archive" "$work/out" || { cat "$work/said"; exit 1; }

has() { # has FILE TEXT
    grep -F -e "$2" "$work/out/$1" >/dev/null || wrong "$1 does not have: $2"
}
sha256=$(sha256sum "$archive" | cut -d ' ' -f 1) sha512=$(sha512sum "$archive" | cut -d ' ' -f 1)
has conan/conandata.yml "\"$version\":"
has conan/conandata.yml "sha256: \"$sha256\""
has conan/conandata.yml "url: \"$url\""
has vcpkg/vcpkg.json "\"version\": \"$version\""
has vcpkg/portfile.cmake "SHA512 $sha512"
has vcpkg/portfile.cmake "URLS \"$url\""
has alpine/APKBUILD "pkgver=$version"
has alpine/APKBUILD "$sha512  \$pkgname-\$pkgver.tar.gz"
has alpine/APKBUILD "::$url\""
! grep -rE '@[A-Z0-9]+@' "$work/out" || wrong "these lines are not filled in"
! grep -rF "$version" "$source/packaging" || wrong "these lines name the version: CMakeLists.txt alone has it"

# A recipe that does not require zlib and zstd must not find those of the machine.
has conan/conanfile.py '"TAPEHEAD_COMPRESSION"] = False'
has vcpkg/portfile.cmake "-DTAPEHEAD_COMPRESSION=OFF"
has alpine/APKBUILD "zlib-dev zstd-dev"

sh -n "$work/out/alpine/APKBUILD" || wrong "APKBUILD is not valid shell"
if command -v python3 >/dev/null; then
    python3 -c 'import ast, json, sys
json.load(open(sys.argv[1] + "/vcpkg/vcpkg.json"))
for name in ("conanfile.py", "test_package/conanfile.py"):
    ast.parse(open(sys.argv[1] + "/conan/" + name).read())' "$work/out" || wrong "a recipe is not valid"
fi

mv "$archive" "$work/tapehead-0.0.1.tar.gz"
! recipes --url "$url" "$work/tapehead-0.0.1.tar.gz" "$work/other" || wrong "an archive of version 0.0.1 is accepted"
grep -F "this checkout has version $version" "$work/said" >/dev/null || wrong "the message is $(cat "$work/said")"
exit $status
