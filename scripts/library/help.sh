# help.sh: functions for scripts of this repository, which source it: --help, --version, error messages, last lines, Debian's mirror.
# shellcheck shell=sh

# Prints the comment at the beginning of the script.
usage() {
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
}

# Prints the version: the nearest folder above the script whose CMakeLists.txt is that of Tapehead has it.
version() {
    checkout=$(dirname "$(readlink -f "$0")")
    until grep -q '^project(tapehead ' "$checkout/CMakeLists.txt" 2>/dev/null || [ "$checkout" = / ]; do
        checkout=$(dirname "$checkout")
    done
    sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' "$checkout/CMakeLists.txt"
}

# answer_help [OPTION...]: prints the usage or the version and exits with status 0 if an option requests that.
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

# skip REASON: ends the script with this message and status 77: it cannot run here.
skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

# find_mirror: sets `mirror` to DEBIAN_MIRROR, or to the first archive of this machine's apt, except the one of security updates.
find_mirror() {
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(COMPONENT) $(SITE)' 2>/dev/null |
        awk '$1 == "main" && $2 !~ /security/ { print $2; exit }')}
    [ -n "$mirror" ] || skip "apt knows no Debian mirror here; DEBIAN_MIRROR can name one"
}

# need_value OPTION...: refuses an option without a value: the last word of the command line.
need_value() {
    [ $# -gt 1 ] || refuse "$1 needs a value"
}

# quoted WORD...: prints the words with quotes, so that a shell reads the same words.
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

# print_next SCRIPT [OPTION...]: prints the next command for the user. SCRIPT is relative to the directory of this script.
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
