# language_model_checks.sh: functions for the tests of the language model, which source this file. It makes a temporary folder
# the current directory and removes the folder at the end of the test.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

fail() {
    echo "FAILED: $*"
    exit 1
}
expect() { # expect STATUS WORDS COMMAND...: the command ends with this status and prints these words
    wanted=$1 words=$2 status=0
    shift 2
    "$@" >said 2>&1 || status=$?
    [ $status -eq "$wanted" ] || { cat said; fail "status $status, not $wanted: $*"; }
    [ -z "$words" ] || grep -q -- "$words" said || { cat said; fail "does not print \"$words\": $*"; }
}
