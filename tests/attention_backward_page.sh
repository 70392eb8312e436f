#!/bin/sh
# attention_backward_page.sh PROGRAM PAGE: the outputs on the page equal the output of the program on this machine.
#
# The outputs are in blocks that open with ```console. A line "$ attention_backward OPTIONS" starts an output, which continues in
# the next blocks. A line "..." replaces any number of lines; without it the page must show every line. Empty lines do not
# count.
set -eu

exec awk -v program="$1" '
function fail(text) { print FILENAME ":" FNR ": " text; failed = 1; exit 1 }

# Ends the previous output: the page must have shown all of it, or have ended it with "...".
function finish() {
    if (shown < printed && !skipping)
        fail("\"" command "\" prints more than the page shows: " output[shown + 1])
}

function start(   run, line) {
    finish()
    command = substr($0, 3)
    run = "\"" program "\"" substr(command, length("attention_backward") + 1) "; echo status $?"
    if (command !~ /^attention_backward( [-a-z0-9.]+)*$/)
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
    print commands " outputs, " lines " lines: the page is right"
}
' "$2"
