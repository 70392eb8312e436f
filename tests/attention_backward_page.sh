#!/bin/sh
# attention_backward_page.sh PROGRAM PAGE: what the page shows is what the program prints, today and on this machine.
#
# The page's blocks open with ```console. A line "$ attention_backward OPTIONS" in one starts an output, which goes on in the
# blocks after it; a line "..." stands for any lines left out, otherwise nothing may be. Empty lines do not count.
set -eu

exec awk -v program="$1" '
function fail(text) { print FILENAME ":" FNR ": " text; failed = 1; exit 1 }

# Ends the output begun before: all of it must have been shown, or "..." must have stood last.
function finish() {
    if (shown < printed && !skipping)
        fail("\"" command "\" prints more than the page shows: " output[shown + 1])
}

function start(   run, line) {
    finish()
    command = substr($0, 3)
    run = "\"" program "\"" substr(command, length("attention_backward") + 1) "; echo status $?"
    if (command !~ /^attention_backward( [-a-z0-9.]+)*$/)
        fail("this is no command that the test runs: " command)
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
