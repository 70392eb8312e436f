#!/bin/sh
# release.sh SOURCE CMAKE CC: scripts/platforms/release.sh makes an archive that builds without git. The archive has the files of the commit and
# the core library as two files, which name the commit. It has
# the same bytes in another directory, under another umask. The script refuses a checkout with changes, a version without a dated section in
# CHANGELOG.md, and a version that abi/releases.txt does not have, or has with another date or commit. The test runs in a small repository
# with the files of SOURCE. (It only configures the build: `scripts/platforms/bare_root.sh --archive FILE` builds.)
set -eu
source=$1 cmake=$2 cc=$3
command -v git >/dev/null || { echo "skipped: git is not installed (scripts/setup.sh release installs it)"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: python3 is not installed (scripts/setup.sh release installs it)"; exit 77; }
work=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test GIT_COMMITTER_NAME=test \
    GIT_COMMITTER_EMAIL=test GIT_COMMITTER_DATE=2020-02-02T02:02:02Z
unset GIT_DIR GIT_WORK_TREE

fail() {
    echo "$*"
    exit 1
}
# refuses SENTENCE: release.sh fails with this message and writes nothing.
refuses() {
    if scripts/platforms/release.sh --without-reference --without-site --output "$work/refused" >"$work/said" 2>&1; then
        fail "release.sh does not print: $1"
    fi
    grep -F -e "$1" "$work/said" >/dev/null || fail "release.sh does not print \"$1\", but $(cat "$work/said")"
    [ ! -e "$work/refused" ] || fail "release.sh refuses ($1) and writes $(ls "$work/refused")"
}
commit() {
    git add -A && git commit -qm "$1"
}

# A copy of the files that git would commit; without git, of all except builds.
mkdir "$work/checkout"
cd "$source"
git ls-files --cached --others --exclude-standard 2>"$work/said" | while read -r file; do
    [ ! -e "$file" ] || echo "$file"
done >"$work/files"
[ -s "$work/files" ] || find . \( -path ./.git -o -path './build*' \) -prune -o ! -type d -print >"$work/files"
tar -c -T "$work/files" -f - | tar -x -C "$work/checkout"
cd "$work/checkout"
version=$(sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
# During development the changelog has unreleased lines, and no section of the version; nor has abi/releases.txt a line.
printf '# Changelog\n\n## [Unreleased]\n\n## [%s] - 2020-02-02\n\n- A line.\n' "$version" >CHANGELOG.md
sed -i "/^$version /d" abi/releases.txt
echo "$version 2020-02-02 -" >>abi/releases.txt
git init -q
commit "a release"

echo "== the same bytes in another directory"
scripts/platforms/release.sh --without-reference --without-site --output "$work/first" 2>"$work/said"
git clone -q . "$work/other place"
(umask 077 && "$work/other place/scripts/platforms/release.sh" --without-reference --without-site --output "$work/second" 2>"$work/said")
archive=tapehead-$version.tar.gz
cmp "$work/first/$archive" "$work/second/$archive"
(cd "$work/first" && sha256sum -c "$archive.sha256")

echo "== the files of the commit"
mkdir "$work/unpacked"
tar -x -C "$work/unpacked" -f "$work/first/$archive"
unpacked=$work/unpacked/tapehead-$version
for file in tapehead.h tapehead.c; do
    head -n 1 "$unpacked/examples/two_files/$file" | grep -F "Tapehead $version, commit $(git rev-parse --short=12 HEAD): " >/dev/null ||
        fail "the archive has no examples/two_files/$file of the commit"
    rm "$unpacked/examples/two_files/$file"
done
diff -r --exclude=.git . "$unpacked"
[ "$(ls "$work/unpacked")" = "tapehead-$version" ] || fail "the archive has more than one folder"

echo "== configuration without git"
mkdir "$work/tools"
printf '#!/bin/sh\necho "git $*" >>"%s"\nexit 1\n' "$work/called" >"$work/tools/git"
chmod +x "$work/tools/git"
PATH=$work/tools:$PATH "$cmake" -S "$unpacked" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF \
    >"$work/said" 2>&1 || fail "$(cat "$work/said")"
[ ! -e "$work/called" ] || fail "the configuration calls $(cat "$work/called")"

echo "== refusals"
touch new.txt
refuses "?? new.txt"
rm new.txt
sed -i "s/2020-02-02 -/2020-02-02 $(git rev-parse HEAD)/" abi/releases.txt
commit "the commit of the release"
refuses "version $version was released with commit $(git rev-parse HEAD~)"
sed -i "s/^$version .*/$version 2020-02-03 -/" abi/releases.txt
commit "another date"
refuses "version $version has the date 2020-02-02 in CHANGELOG.md, but 2020-02-03 in abi/releases.txt"
sed -i '$d' abi/releases.txt
commit "no release"
refuses "abi/releases.txt does not have version $version"
sed -i 's/^## \[Unreleased\]/&\n\n- A line./' CHANGELOG.md
commit "an unreleased line"
refuses "CHANGELOG.md has lines under Unreleased"
sed -i "s/^## \[$version\] - .*/## [$version]/" CHANGELOG.md
commit "no date"
refuses "CHANGELOG.md has no section with a date of version $version"
rm -rf .git
status=0
scripts/platforms/release.sh --without-reference --without-site --output "$work/refused" >"$work/said" 2>&1 || status=$?
[ "$status" -eq 77 ] || fail "without git's folder release.sh returns $status"
