# help.sh: scripts of this repository source it, for --help and --version, their error messages and their last lines.
# shellcheck shell=sh

# Prints the comment at the beginning of the script.
usage() {
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
}

version() {
    sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' "$(dirname "$(readlink -f "$0")")/../CMakeLists.txt"
}

# answer_help [OPTION...]: if one of the options asks for the usage or the version, prints it and exits with status 0.
answer_help() {
    for option; do
        case $option in
        -h | --help)
            usage
            exit 0
            ;;
        --version)
            printf '%s (Tapehead) %s\n' "$(basename "$0")" "$(version)"
            exit 0
            ;;
        esac
    done
}

# refuse PROBLEM: ends the script with this message and status 2.
refuse() {
    printf '%s: %s (--help explains the options)\n' "$(basename "$0")" "$*" >&2
    exit 2
}

# need_value OPTION...: refuses an option that is the last word and so has no value.
need_value() {
    [ $# -gt 1 ] || refuse "$1 needs a value"
}

# quoted WORD...: prints the words, quoted so that a shell reads the same words.
quoted() {
    for word; do
        case $word in
        '' | *[!A-Za-z0-9_+=.,:/@%-]*) printf " '%s'" "$(printf %s "$word" | sed "s/'/'\\\\''/g")" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
}

# print_written FILE...: names the files that the script wrote.
print_written() {
    for file; do
        printf 'wrote: %s\n' "$file" >&2
    done
}

# print_next SCRIPT [OPTION...]: prints a command to paste. SCRIPT is relative to the directory of this script.
print_next() {
    directory=$(dirname "$0")
    [ -e "$directory/$1" ] || directory=$(dirname "$(readlink -f "$0")")
    next=$(basename "$1")
    case $1 in
    */*) directory=$(dirname "$directory/$1") ;;
    esac
    shift
    printf 'next: %s\n' "$(quoted "$directory/$next" "$@")" >&2
}
