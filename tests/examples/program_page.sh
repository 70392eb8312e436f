#!/bin/sh
# program_page.sh PROGRAM PAGE [SOURCE]: the outputs on the page equal the output of the program on this machine, and the C on the
# page is in the program.
#
# The outputs are in blocks that open with ```console. A line "$ scripts/run.sh NAME OPTIONS", with the program's name, starts an output, which
# continues in the next blocks. A line "..." replaces any number of lines; without it the page must show every line. Empty lines do
# not count. With SOURCE, the lines of each block that opens with ```c must follow each other in it; indentation does not count.
set -eu

exec awk -v program="$1" -v name="$(basename "$1")" -v source="${3:-}" '
function fail(text) { print FILENAME ":" FNR ": " text; failed = 1; exit 1 }

# Ends the previous output: the page must have shown all of it, or have ended it with "...".
function finish() {
    if (shown < printed && !skipping)
        fail("\"" command "\" prints more than the page shows: " output[shown + 1])
}

function start(   run, line) {
    finish()
    command = substr($0, 3)
    sub(/^scripts\/run\.sh (class\/)?/, "", command)
    run = "\"" program "\"" substr(command, length(name) + 1) "; echo status $?"
    if (command !~ "^" name "( [-a-z0-9.]+)*$")
        fail("the test cannot run this command: " command)
    printed = shown = skipping = 0
    while ((run | getline line) > 0)
        if (line != "")
            output[++printed] = line
    close(run)
    if (output[printed--] != "status 0")
        fail("\"" command "\" failed")
    commands++
}

function plain(line) {
    gsub(/^[ \t]+|[ \t]+$/, "", line)
    return line
}

# Ends a block of C: fails if the source does not have its lines.
function find_code() {
    if (!index(code, "\n" block))
        fail("the program does not have this C: " block)
    pieces++
}

BEGIN {
    code = "\n"
    while (source && (getline line < source) > 0)
        if (plain(line) != "")
            code = code plain(line) "\n"
}

source && /^```c$/ { in_code = 1; block = ""; next }
in_code && /^```$/ { in_code = 0; find_code(); next }
in_code { if (plain($0) != "") block = block plain($0) "\n"; next }
/^```console$/ { inside = 1; next }
/^```$/ { inside = 0; next }
!inside || $0 == "" { next }
/^\$ / { start(); next }
$0 == "..." { skipping = 1; next }
{
    if (!commands)
        fail("an output without its command")
    while (++shown <= printed && output[shown] != $0)
        if (!skipping)
            fail("the page shows\n  " $0 "\nwhere \"" command "\" prints\n  " output[shown])
    if (shown > printed)
        fail("\"" command "\" does not print (here)\n  " $0)
    skipping = 0
    lines++
}

END {
    if (failed)
        exit 1
    finish()
    if (!commands || !lines)
        fail("the page shows no output")
    if (source && !pieces)
        fail("the page shows no C")
    print commands " outputs, " lines " lines" (source ? ", " pieces " pieces of C" : "") ": the page is right"
}
' "$2"
