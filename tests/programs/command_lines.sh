#!/bin/sh
# command_lines.sh SOURCE BUILD [BENCH]: checks the command lines of all examples, lessons, benchmark programs and scripts.
#
# --help, -h and --version print and return 0. An unknown option returns 2 with a message. Neither writes a file or runs a
# tool. At its end an example prints the names of all files that it wrote, and a next command that runs as printed. This holds
# for examples that are started directly, by scripts/run.sh and by scripts/demo.sh.
set -eu

source=$1 build=$(cd "$2" && pwd) bench=$(cd "${3:-.}" && pwd)
examples=$build/examples lessons=$build/teaching/lessons
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=
export OMP_NUM_THREADS=1 # the work is small

wrong() {
    printf 'WRONG: %s\n' "$*"
    sed 's/^/    /' "$work/out" "$work/err"
    failed=yes
}
# run COMMAND...: sets status, and writes the output to the files out and err.
run() {
    status=0
    "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# -- help, version and nonsense --

# The test replaces tools that install or build; they only record their calls.
mkdir "$work/tools" "$work/empty"
for tool in apt-get sudo cmake make ctest pip debootstrap unshare; do
    printf '#!/bin/sh\necho "%s $*" >>"%s"\nexit 1\n' "$tool" "$work/called" >"$work/tools/$tool"
    chmod +x "$work/tools/$tool"
done
cd "$work/empty"

check_command() { # check_command NAME COMMAND...
    name=$1
    shift
    for option in --help -h --version; do
        run env PATH="$work/tools:$PATH" "$@" "$option"
        [ "$status" -eq 0 ] || wrong "$name $option returns $status"
        [ -s "$work/out" ] && [ ! -s "$work/err" ] || wrong "$name $option does not print to standard output alone"
    done
    grep -x "$name (Tapehead) [0-9.]*" "$work/out" >/dev/null || wrong "$name --version does not print a version"
}
check_refusal() { # check_refusal NAME COMMAND...: with an unknown option
    name=$1
    shift
    run env PATH="$work/tools:$PATH" "$@" --nonsense
    [ "$status" -eq 2 ] || wrong "$name --nonsense returns $status"
    grep -e --nonsense "$work/err" >/dev/null && grep -e --help "$work/err" >/dev/null ||
        wrong "$name --nonsense does not say what is wrong and where help is"
    [ ! -s "$work/out" ] || wrong "$name --nonsense prints results"
}

for program in "$examples"/* "$lessons"/* ${3:+"$bench"/*}; do
    name=$(basename "$program")
    case $name in
    CMakeFiles | Makefile | *.cmake | *.a | train) continue ;; # (train has no options)
    esac
    check_command "$name" "$program"
    check_refusal "$name" "$program"
done
# (in a copy, because a wrong script may change files in its checkout)
mkdir "$work/source"
cp -r "$source/scripts" "$source/bench" "$source/CMakeLists.txt" "$work/source/"
ln -s "$source/examples" "$source/programs" "$source/teaching" "$source/tests" "$work/source/"
for script in "$work"/source/scripts/*.sh "$work"/source/scripts/*/*.sh "$work"/source/bench/*.sh "$work"/source/bench/*/*.sh; do
    name=$(basename "$script")
    case $name in
    help.sh | root.sh | source_packages.sh | peers.sh) continue ;; # sourced
    esac
    check_command "$name" "$script"
    case $name in
    demo.sh | test.sh | configure.sh) ;; # they pass options to other programs
    *) check_refusal "$name" "$script" ;;
    esac
done
[ ! -e "$work/called" ] || wrong "these were called: $(cat "$work/called")"
[ -z "$(ls -A)" ] || wrong "these files were written: $(ls -A)"

# -- the ends of examples --

# check_end COMMAND...: runs it in an empty directory and sets next to the command that it suggests.
check_end() {
    rm -rf "$work/empty" && mkdir "$work/empty" && cd "$work/empty"
    run "$@"
    [ "$status" -eq 0 ] || wrong "$* returns $status"
    sed -n 's/^wrote: //p' "$work/err" | sed 's|^\./||' | sort >"$work/named"
    find . -type f | sed 's|^\./||' | sort >"$work/found"
    cmp -s "$work/named" "$work/found" || wrong "$* wrote $(cat "$work/found") and names $(cat "$work/named")"
    next=$(tail -n 1 "$work/err" | sed -n 's/^next: *//p')
    [ -n "$next" ] || wrong "$* does not end with a next command"
}
# check_next [OPTION...]: the suggested command works as printed. The options only make it short.
check_next() {
    run sh -c "$next $*"
    [ "$status" -eq 0 ] || wrong "the next command, $next $*, returns $status"
}

mkdir "$work/with space"
ln -s "$examples"/* "$work/with space/"
check_end "$examples/copy_task" --steps 1 --length 2
check_next --steps 1 --quiet
check_end "$work/with space/copy_task" --steps 1 --length 2 --out "it's new" --no-attention
check_next --steps 1 --quiet
check_end "$work/with space/classify" --steps 1
check_next --steps 1 --quiet
check_end "$examples/translate_dates" --steps 1
check_next --steps 1 --quiet
check_end "$examples/attention_backward"
check_next
check_end "$examples/attention_backward" --causal --heads 2 --dropout 0.3
check_next
check_end "$examples/gradcheck_your_op"
check_next
check_end "$examples/check_functions"
check_next
check_end "$lessons/1_chain_rule"
check_next

# -- the same by scripts, in a checkout where everything is installed and built --

checkout="$work/check out"
mkdir -p "$checkout/scripts/library" "$checkout/build" "$work/built"
cp "$source"/scripts/run.sh "$source"/scripts/demo.sh "$checkout/scripts/"
cp "$source"/scripts/library/help.sh "$checkout/scripts/library/"
cp "$source/CMakeLists.txt" "$checkout/"
ln -s "$source/examples" "$source/programs" "$source/teaching" "$checkout/"
ln -s "$examples" "$build/teaching" "$checkout/build/"
for tool in scripts/setup.sh scripts/library/configure.sh ../built/cmake; do
    printf '#!/bin/sh\ncase $0 in *configure.sh) echo "%s/build" ;; esac\n' "$checkout" >"$checkout/$tool"
    chmod +x "$checkout/$tool"
done
PATH=$work/built:$PATH

for command in "$checkout/scripts/demo.sh" "../check out/scripts/demo.sh"; do
    check_end "$command" --steps 1 --length 2
    [ -e copy_task_out/copy_loss.svg ] || wrong "demo.sh does not write into copy_task_out"
    check_next --steps 1 --quiet
done
check_end "../check out/scripts/run.sh" classify --steps 1
check_next --steps 1 --quiet
check_end "../check out/scripts/run.sh" gradcheck_your_op
check_next
check_end "../check out/scripts/run.sh" class/1_chain_rule
check_next
cd "$checkout/scripts"
run sh demo.sh --steps 1 --length 2 --no-attention --out "$work/empty"
next=$(tail -n 1 "$work/err" | sed -n 's/^next: *//p')
check_next --steps 1 --quiet --out "'$work/empty'"

# Without a build run.sh still prints help for an example, and builds nothing.
rm "$checkout/build/examples"
run ./run.sh copy_task --help
[ "$status" -eq 0 ] && grep "must write the sequence again" "$work/out" >/dev/null || wrong "run.sh copy_task --help"
run ./demo.sh --help
[ "$status" -eq 0 ] && grep "trains one attention layer" "$work/out" >/dev/null || wrong "demo.sh --help"
run ./run.sh nonsense
[ "$status" -eq 2 ] && grep "no program nonsense" "$work/err" >/dev/null || wrong "run.sh nonsense returns $status"

[ -z "$failed" ]
