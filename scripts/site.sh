#!/bin/sh
# site.sh [OPTION...] FOLDER: writes the class as a folder that any static web server can serve as it is: the lessons as pages with
# formulas, programs and pictures, the class's page, tapes of the lessons, the exercises' texts. The pages load nothing from
# elsewhere, and also open from the folder. Options:
#   --build DIR      builds the lessons here; the default is build/site
#   --class FILE     takes this class.html, which class.sh wrote. Without the option class.sh builds it
#   --pages-only     leaves out what must be compiled: the class's page and the tapes
# Needs pandoc, which it installs. FOLDER must be new, empty, or an earlier site.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/library/help.sh"
build=$root/build/site class='' only='' folder=''
while [ $# -gt 0 ]; do
    case $1 in
    --build)
        need_value "$@"
        build=$2
        shift
        ;;
    --class)
        need_value "$@"
        [ -f "$2" ] || refuse "$2 is not a file"
        class=$2
        shift
        ;;
    --pages-only) only=yes ;;
    -*)
        answer_help "$1"
        refuse "unknown option $1"
        ;;
    *)
        [ -z "$folder" ] || refuse "there is more than one folder: $folder and $1"
        folder=$1
        ;;
    esac
    shift
done
[ -n "$folder" ] || refuse "the folder for the site is missing"
if [ -e "$folder" ] && [ ! -e "$folder/site.css" ] && [ -n "$(ls -A "$folder")" ]; then
    refuse "$folder exists, and is not a site that this script wrote"
fi
mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")
[ -z "$class" ] || class=$(readlink -f "$class")
command -v pandoc >/dev/null || "$root/scripts/setup.sh" site

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir "$work/site" "$work/site/lessons" "$work/site/exercises" "$work/site/docs"
cd "$root"

# -- which file becomes which page --

lessons=$(ls teaching/lessons/[0-9]*-*.md | sort -t / -k 3n)
{
    echo teaching/lessons/README.md lessons/index.html
    echo teaching/lessons/teacher.md lessons/teacher.html
    echo teaching/exercises/README.md exercises/index.html
    echo docs/attention-backward.md docs/attention-backward.html
    for file in $lessons; do
        echo "$file lessons/$(basename "$file" .md).html"
    done
    for file in teaching/lessons/[0-9]*.c teaching/exercises/[0-9]*.c teaching/exercises/exercise.h; do
        echo "$file ${file#teaching/}.html"
    done
    for file in teaching/lessons/images/*.svg docs/images/copy_attention.svg; do
        echo "$file ${file#teaching/}"
    done
} >"$work/list"

title_of() { # title_of FILE: the first heading
    sed -n 's/^# //p' "$1" | head -n 1
}
link_to() { # link_to FILE: a page from the folder of the lessons
    sed -n "s|^$1 lessons/||p" "$work/list"
}

# -- the pages --

version=$(version)
made_class=$class
[ -n "$only" ] || made_class=yes

convert() { # convert SOURCE TARGET MARKDOWN [OPTION...]: writes a page
    source=$1 target=$2 markdown=$3
    shift 3
    case $target in
    */*) up=../ ;;
    *) up= ;;
    esac
    pandoc -f gfm -t html5 --template "$root/teaching/site/page.html" --lua-filter "$root/teaching/site/page.lua" -M source="$source" \
        -M list="$work/list" -V root="$up" -V version="$version" ${made_class:+-V class=yes} "$@" -o "$work/site/$target" "$markdown"
}

before=
while read -r source target; do
    case $source in
    *.svg)
        mkdir -p "$work/site/$(dirname "$target")"
        cp "$source" "$work/site/$target"
        ;;
    *.c | *.h)
        {
            printf '# %s\n\n``````c\n' "$(basename "$source")"
            cat "$source"
            printf '``````\n'
        } >"$work/code.md"
        set -- -M pagetitle="$(basename "$source")" -V wide=yes
        case $source in
        teaching/exercises/*.c) set -- "$@" -V exercise="$(basename "${source%%_*}")" ;;
        esac
        convert "$source" "$target" "$work/code.md" "$@"
        ;;
    teaching/lessons/[0-9]*.md)
        after=$(echo "$lessons" | grep -A 1 -x "$source" | tail -n +2)
        program=$(basename "$source" .md | tr - _)
        set -- -M pagetitle="$(title_of "$source")"
        [ -n "$only" ] || set -- "$@" -V tape="$program.html"
        [ -z "$before" ] || set -- "$@" -V previous="$(link_to "$before")" -V previous-title="$(title_of "$before")"
        [ -z "$after" ] || set -- "$@" -V next="$(link_to "$after")" -V next-title="$(title_of "$after")"
        convert "$source" "$target" "$source" "$@"
        before=$source
        ;;
    *) convert "$source" "$target" "$source" -M pagetitle="$(title_of "$source")" ;;
    esac
done <"$work/list"

{
    printf '# How a transformer learns\n\n'
    printf 'A class with numbers small enough for a pencil. You follow each number forward to the loss, and its gradient back.\n\n<ul class="cards">\n'
    [ -z "$made_class" ] || printf '<li><a href="class.html">The class in your browser</a><br>Attention learns to copy, with a tour. 中文版 / English.</li>\n'
    printf '<li><a href="lessons/index.html">The lessons</a><br>From one multiplication to attention, with programs in C.</li>\n'
    printf '<li><a href="exercises/index.html">The exercises</a><br>Write the missing lines of backward. A program marks them.</li>\n'
    [ -n "$only" ] || printf '<li><a href="tapes/6_attention.html">A tape</a><br>Attention on three tokens: every matrix, forward and backward.</li>\n'
    printf '</ul>\n\n## The lessons\n\n'
    for file in $lessons; do
        printf -- '- [%s](lessons/%s)\n' "$(title_of "$file")" "$(link_to "$file")"
    done
} >"$work/index.md"
{
    sed 's/^[^ ]* \(.*\)/\1 \1/' "$work/list" # its links are those of the site already
    echo index.md index.html
} >"$work/list.index"
pandoc -f gfm -t html5 --template teaching/site/page.html --lua-filter teaching/site/page.lua -M source=index.md -M list="$work/list.index" \
    -V root= -V version="$version" ${made_class:+-V class=yes} -M pagetitle="How a transformer learns" -o "$work/site/index.html" "$work/index.md"

cat src/export/page/page.css teaching/site/site.css >"$work/site/site.css"

# -- what is compiled --

if [ -z "$only" ]; then
    if [ -z "$class" ]; then
        scripts/class.sh build >/dev/null
        class=build-class/teaching/class/class.html
    fi
    "$root/scripts/setup.sh" demo
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_ISAS=baseline >/dev/null
    programs=$(for file in $lessons; do basename "$file" .md | tr - _; done)
    # shellcheck disable=SC2086 # a list of names
    cmake --build "$build" --parallel "$(nproc)" --target $programs >/dev/null
    mkdir "$work/site/tapes"
    for program in $programs; do
        "$build/teaching/lessons/$program" --page "$work/site/tapes/$program.html" >"$work/said" 2>&1 || {
            cat "$work/said" >&2
            exit 1
        }
    done
fi
[ -z "$class" ] || sed 's/^<body>$/<body data-site>/' "$class" >"$work/site/class.html"

rm -rf --one-file-system "$folder"
chmod -R u=rwX,go=rX "$work/site"
mv "$work/site" "$folder"
print_written "$folder/index.html"
