#!/bin/sh
# file_calls.sh SOURCE: one way to read files (src/platform/regular_file.h) and one to write them (src/platform/atomic_file.h), also in the
# programs (tapehead/files.h). Any other call that opens, makes, maps, renames or removes a file needs a line with its reason in
# tests/package/file_calls.txt: "FILE CALL... # reason". A line that no call needs is an error.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

streams='fopen|fopen64|freopen|freopen64|fdopen|tmpfile|tmpfile64|popen|json_load_file|json_dump_file'
descriptors='open|open64|openat|openat64|openat2|creat|creat64|shm_open|memfd_create|mmap|mmap64|truncate|truncate64'
folders='opendir|fdopendir|scandir|scandirat|ftw|nftw|glob|mkdir|mkdirat|rmdir|mknod|mkfifo'
names='rename|renameat|renameat2|link|linkat|symlink|symlinkat|unlink|unlinkat|remove|tmpnam|tempnam|mktemp|mkstemp|mkostemp|mkstemps|mkdtemp'
own='th_open_file|th_open_folder'
calls="$streams|$descriptors|$folders|$names|$own|ifstream|ofstream|fstream"

# Quoted texts and comments are left out. One program reads all files, because hundreds of processes take seconds.
cat >"$work/calls.awk" <<'END'
FNR == 1 { inside = 0 }
{
    line = $0
    gsub(/'\\?"'/, "", line)
    if (line ~ /"/)
        gsub(/"([^"\\]|\\.)*"/, "", line)
    code = ""
    while (line != "") {
        at = index(line, inside ? "*/" : "/*")
        if (!inside)
            code = code (at ? substr(line, 1, at - 1) : line)
        line = at ? substr(line, at + 2) : ""
        inside = at ? !inside : inside
    }
    sub(/\/\/.*/, "", code)
    if (code !~ "(" calls ")")
        next
    code = " " code
    while (match(code, "[^A-Za-z0-9_.>](" calls ")([(]|$)")) {
        name = substr(code, RSTART + 1, RLENGTH - 1)
        sub(/[(]/, "", name)
        print FILENAME, name
        code = " " substr(code, RSTART + RLENGTH)
    }
}
END
find src include examples programs teaching bench \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.hpp' \) -exec \
    awk -v calls="$calls" -f "$work/calls.awk" {} + >"$work/found"
[ -s "$work/found" ] || { echo "no call found"; exit 1; }

grep -v '^#' tests/package/file_calls.txt | grep . >"$work/lines"
if grep -vE '^[^ ]+( [a-z0-9_]+)+ # .{10}' "$work/lines"; then
    echo "these lines do not have the form FILE CALL... # reason"
    exit 1
fi
sed 's/ # .*//' "$work/lines" | awk '{ for (i = 2; i <= NF; i++) print $1, $i }' | sort -u >"$work/listed"
sort -u "$work/found" >"$work/sorted"
status=0
comm -23 "$work/sorted" "$work/listed" >"$work/new"
comm -13 "$work/sorted" "$work/listed" >"$work/old"
if [ -s "$work/new" ]; then
    echo "these files call functions that open, make, map, rename or remove files; use th_regular_open, th_atomic_begin,"
    echo "th_file_read or th_file_write, or give the reason in tests/package/file_calls.txt:"
    cat "$work/new"
    status=1
fi
if [ -s "$work/old" ]; then
    echo "tests/package/file_calls.txt lists calls that are not there:"
    cat "$work/old"
    status=1
fi
[ $status -ne 0 ] || echo "$(wc -l <"$work/sorted") calls in $(cut -d' ' -f1 "$work/sorted" | uniq | wc -l) files, each with a reason"
exit $status
