#!/bin/sh
# install_components.sh SOURCE BUILD CMAKE VERSION SOVERSION [models]: checks which files each component of the installation has. With
# "models" the build has both libraries.
#   - No file belongs to two components, and all components together are the whole installation.
#   - All users can read every file and directory, although the umask of this installation forbids it.
#   - No folder is empty.
#   - Links in the installed pages lead to installed files.
set -eu
source=$1 build=$2 cmake=$3 version=$4 soversion=$5 models=${6:-}
. "$(dirname "$(readlink -f "$0")")/package_checks.sh"

# -- what each component should have; LIB is the directory of libraries --

cd "$source"
names="tapehead ${models:+tapehead_models}"
{
    for name in $names; do
        echo "LIB/lib$name.so.$version"
        echo "LIB/lib$name.so.$soversion"
    done
} >"$work/runtime"
{
    for name in $names; do
        printf '%s\n' "LIB/lib$name.so" "LIB/lib$name.a" "LIB/pkgconfig/$name.pc"
    done
    for part in core ${models:+models}; do
        printf '%s\n' "LIB/cmake/tapehead/tapehead-$part-targets.cmake" "LIB/cmake/tapehead/tapehead-$part-targets-TYPE.cmake"
    done
    printf '%s\n' LIB/cmake/tapehead/tapehead-config.cmake LIB/cmake/tapehead/tapehead-config-version.cmake
    find include -name '*.h' | if [ -n "$models" ]; then cat; else grep -vF "$(models_headers include)" | grep -v /models.h; fi
} >"$work/devel"
{
    ls ./*.md LICENSE tests/checksums.txt python/README.md
    find docs bench -path docs/reference -prune -o -name '*.md' -print -o -name '*.svg' -print -o -name '*.png' -print
    find teaching/lessons -name '*.md' -o -name '*.svg' -o -name '*.[ch]'
} | sed 's|^\(\./\)*|share/doc/tapehead/|' >"$work/doc"
{
    find examples -name '*.[ch]' ! -path '*/two_files/*'
    find programs -name '*.[ch]' | sed -e 's|^programs/|examples/|' -e 's|/\([^/]*\)/\1\.c$|/\1.c|'
    find teaching/lessons -name '*.[ch]' | sed 's|^teaching/lessons|examples/class|'
    echo examples/CMakeLists.txt
} | sed 's|^|share/doc/tapehead/|' >"$work/examples"

# -- what each has --

# installed PLACE [OPTION...]: installs into $work/PLACE and lists the files, except the reference, in $work/PLACE.list.
installed() {
    place=$1
    shift
    (umask 077 && "$cmake" --install "$build" --prefix "$work/$place" "$@") >"$work/log" || { cat "$work/log"; exit 1; }
    (cd "$work/$place" && find . ! -type d ! -path './share/doc/tapehead/docs/reference/*') |
        sed -E -e 's|^\./||' -e 's|^lib[^/]*/([^/]*-linux-[^/]*/)?|LIB/|' -e 's|(targets)-[a-z]*\.cmake|\1-TYPE.cmake|' |
        sort >"$work/$place.list"
    (cd "$work/$place" && find . -mindepth 1 \( -type d ! -perm -755 \) -o \( -type f ! -perm -644 \)) >"$work/unreadable"
    [ ! -s "$work/unreadable" ] || wrong "other users cannot read these of $place: $(cat "$work/unreadable")"
    (cd "$work/$place" && find . -type d -empty) >"$work/empty"
    [ ! -s "$work/empty" ] || wrong "these folders of $place are empty: $(cat "$work/empty")"
}

for component in runtime devel doc examples; do
    installed "$component.installed" --component $component
    sort "$work/$component" | diff - "$work/$component.installed.list" >"$work/difference" ||
        wrong "component $component (<: not installed, >: should not be installed):" "$(cat "$work/difference")"
done
installed all
sort "$work"/*.installed.list | diff - "$work/all.list" || wrong "the components together (<) are not the whole installation (>)"

# -- links between pages --

cd "$work/all/share/doc/tapehead"
find . -name '*.md' | while read -r page; do
    grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v : | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >"$work/links"
[ ! -s "$work/links" ] || wrong "these links lead to files that are not installed: $(cat "$work/links")"
[ $status -ne 0 ] || echo "$(wc -l <"$work/all.list") files in four components"
exit $status
