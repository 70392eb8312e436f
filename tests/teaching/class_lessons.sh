#!/bin/sh
# class_lessons.sh SOURCE: each lesson of the class has a program of at most 100 lines (lesson 1: 40), a page, the same numbers in
# PyTorch, and a line in the index. Each page names its program, and asks questions with answers that open. The pictures are those
# that teaching/lessons/images/draw.py draws.
set -eu
cd "$1"
status=0

wrong() {
    echo "$*"
    status=1
}
need() { # need FILE TEXT: the file exists and contains the text
    if [ ! -e "$1" ]; then
        wrong "$1 does not exist"
    elif ! grep -qF "$2" "$1"; then
        wrong "$1 does not contain: $2"
    fi
}

lessons=0
for program in teaching/lessons/[0-9]*.c; do
    lesson=$(basename "$program" .c)
    page=$(printf '%s' "$lesson" | tr _ -).md
    limit=$(case $lesson in 1_*) echo 40 ;; *) echo 100 ;; esac)
    lines=$(wc -l <"$program")
    [ "$lines" -le "$limit" ] || wrong "$program has $lines lines; at most $limit are allowed"
    need "teaching/lessons/README.md" "]($page)"
    need "teaching/lessons/$page" "]($lesson.c)"
    need "teaching/lessons/$page" "<details>"
    need "scripts/interop/class/$lesson.py" "def numbers("
    lessons=$((lessons + 1))
done
for page in teaching/lessons/[0-9]*.md; do
    program=$(basename "$page" .md | tr - _).c
    [ -e "teaching/lessons/$program" ] || wrong "$page has no program"
done
for comparison in scripts/interop/class/*.py; do
    program=$(basename "$comparison" .py).c
    [ -e "teaching/lessons/$program" ] || wrong "$comparison has no program"
done
! command -v python3 >/dev/null || teaching/lessons/images/draw.py --check || status=1

[ "$status" -ne 0 ] || echo "$lessons lessons have a program, a page, the numbers in PyTorch, and a line in the index"
exit $status
