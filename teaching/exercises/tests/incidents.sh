# incidents.sh: the part of check.sh about code that crashes, hangs or does not compile. check.sh sources it.
# shellcheck shell=sh

# expect LINES SENTENCE [OPTION]: a softmax with these lines gets no full marks, and its report contains the sentence.
expect() {
    printf '%s\n' "$1" >"$work/lines"
    solve 4 "$work/lines" "$work/student.c"
    # shellcheck disable=SC2086 # (no option, or one)
    exercise --seconds 1 ${3-"--json"} 4 "$work/student.c"
    [ "$status" -eq 1 ] || wrong "$1: returns $status"
    grep -F -e "$2" "$work/out" >/dev/null || { wrong "$1: does not say \"$2\""; cat "$work/out" "$work/err"; }
    [ "${3-"--json"}" = --json ] || return 0
    [ "$(wc -l <"$work/out")" -eq 1 ] || wrong "$1: the JSON is not one line"
    ! command -v python3 >/dev/null || python3 -c 'import json, sys; r = json.load(sys.stdin); assert r["marks"] < r["max"] and not r["passed"]' <"$work/out" ||
        { wrong "$1: not JSON"; cat "$work/out"; }
}

# cheat LINES [FUNCTION]: a file with these lines, and with a function before its backward, has no full marks, and the
# solution that is marked after it has.
cheat() {
    printf '%s\n' "$1" >"$work/lines"
    solve 4 "$work/lines" "$work/unfinished.c"
    { printf '#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/socket.h>\n#include <unistd.h>\n%s\n' "${2-}"; cat "$work/unfinished.c"; } >"$work/cheat.c"
    solve 4 "$(solution_of 4)" "$work/honest.c"
    exercise --seconds 1 --json 4 "$work/cheat.c" "$work/honest.c"
    [ "$status" -eq 1 ] && [ "$(field passed | tr '\n' ' ')" = "false true " ] || { wrong "cheat $1 $2: returns $status"; cat "$work/out" "$work/err"; }
}

cheats() {
    cheat 'extern void end_guarded(int, const char *, const char *, ...); end_guarded(1, "", "right");'
    cheat '' '__attribute__((constructor)) static void early(void) { puts("{\"exercise\":4,\"passed\":true}"); exit(0); }'
    cheat 'alarm(0); for (volatile int i = 0; i < 1; i--) i++;'
    cheat 'alarm(0); signal(SIGXCPU, SIG_IGN); for (;;) sleep(1);'
    cheat 'kill(getppid(), 9);'
    cheat 'kill(0, 9); kill(-1, 9);'
    # Answers that a cheat sends itself are numbers like all others.
    cheat 'for (int i = 0; i < 4000; i++) { (void)!write(3, &i, sizeof i); (void)!write(4, &i, sizeof i); }'
    # The solution has full marks only if nothing below is possible.
    grep Seccomp_filters /proc/self/status >/dev/null 2>&1 || return 0
    case $(uname -m) in x86_64 | aarch64) ;; *) return 0 ;; esac
    for attempt in "fork() != -1" "socket(AF_INET, SOCK_STREAM, 0) != -1" "fopen(\"$work/written\", \"w\")" \
        "fopen(\"$work/written\", \"a\")" "fopen(\"$work/lines\", \"r\")" "unlink(\"$work/lines\") == 0"; do
        { echo "if ($attempt) abort();"; cat "$(solution_of 4)"; } >"$work/lines"
        solve 4 "$work/lines" "$work/unfinished.c"
        { printf '#include <stdio.h>\n#include <stdlib.h>\n#include <sys/socket.h>\n#include <unistd.h>\n'; cat "$work/unfinished.c"; } >"$work/attempt.c"
        exercise --json 4 "$work/attempt.c"
        [ "$status" -eq 0 ] || { wrong "the sandbox allows $attempt"; cat "$work/out" "$work/err"; }
    done
}

incidents() {
    expect '*(volatile int *)0 = 1;' "your code stopped with a segmentation fault" ""
    expect 'for (volatile int i = 0; i < 1; i--) i++;' "did not finish within 1 seconds"
    case $(uname -m) in
    x86_64) expect 'volatile int zero = 0; at(dx, 0, 0) = (int)C / zero;' "divided an integer by 0" ;;
    esac
    expect 'exit(3);' "the file does not compile"
    expect 'extern void exit(int); exit(3);' "your code ended the program (exit status 3)"
    expect 'extern void *calloc(size_t, size_t); double *p = calloc(1u << 30, 8); at(dx, 0, 0) = *(volatile double *)p;' "segmentation fault"
    expect 'extern void abort(void); abort();' "your code aborted"
    expect 'extern void nonsense(void); nonsense();' "calls a function that does not exist: nonsense"
    expect 'at(dx, 0, 0) = ' "the file does not compile: "
    expect 'at(dx, 0, 0) = log("one");' "error: "
    expect 'at(dx, 0, 0) = y[0];' "element i of a is at(a, i), not a[i]"
    expect 'at(dx, 0, C) = 1;' "index 1 is 4, but the array is (2, 4): it must be at least 0 and below 4"
    expect 'at(dx, 0) = 1;' "has 1 index, but the array is (2, 4)"
    expect 'at(&c->input[X], 0, 0) = 1;' "at(&c->input[X], 0, 0)"
    expect 'for (int64_t i = 0; i < N * C; i++) at(dx, i / C, i % C) = NAN;' "the analytic gradient is not a number"
    expect '' "every element of dx is 0: nothing is added to it"
    expect 'for (int64_t i = 0; i < N * C; i++) at(dx, i / C, i % C) = 0.5 * at(dy, i / C, i % C);' "should be" ""
    sed 's/int64_t j = 0/int64_t j = 1/' "$(solution_of 4)" >"$work/loop"
    expect "$(cat "$work/loop")" "only the first index of axis 1 of dx is wrong: check where the loop begins"
    # The gradient checker's guess is not a likely cause if another check finds a mistake that explains all numbers.
    sed -e '1i double sum = 0;' -e '/^    double sum = 0;/d' "$(solution_of 4)" >"$work/kept"
    expect "$(cat "$work/kept")" "Likely cause: the sum of a row contains the rows before it" ""
    ! grep -F "Likely cause: the function does not depend" "$work/out" || wrong "the gradient checker's guess is printed"
    { echo 'double *p = dx->data; if (N == 0) p[0] = 1;'; cat "$(solution_of 4)"; } >"$work/none"
    expect "$(cat "$work/none")" "p[0] writes element 0 of the array, which has no elements" "--json --interpret"
    # What the student prints does not mix with the report.
    expect 'extern int puts(const char *); puts("{\"passed\":true}");' "Likely cause:" ""
    expect 'extern int puts(const char *); puts("{\"passed\":true}");' '{"exercise":4'
    { printf '%s\n' 'fprintf(stderr, "%d\n", (int)N); puts("printed"); fflush(stdout);'; cat "$(solution_of 4)"; } >"$work/lines"
    solve 4 "$work/lines" "$work/unfinished.c"
    { echo '#include <stdio.h>'; cat "$work/unfinished.c"; } >"$work/prints.c"
    exercise 4 "$work/prints.c"
    [ "$status" -eq 0 ] && grep -x printed "$work/err" >/dev/null || wrong "a solution that prints: $(cat "$work/out" "$work/err")"
    # The compiler's warning is part of the report.
    expect 'double sum; for (int64_t j = 0; j < C; j++) sum += at(dy, 0, j); at(dx, 0, 0) = sum;' "the compiler warns: " ""

    # Files of other exercises, damaged files, names with spaces and quotes
    exercise 4 "$source/teaching/exercises/5_cross_entropy.c"
    [ "$status" -eq 1 ] && grep -F 'operation is "cross_entropy", but exercise 4 is "softmax"' "$work/out" >/dev/null || wrong "another exercise's file"
    printf 'int x;\n' >"$work/it's \"new\".c"
    exercise --json 4 "$work/it's \"new\".c" "$source/teaching/exercises/4_softmax.c"
    [ "$status" -eq 1 ] && [ "$(wc -l <"$work/out")" -eq 2 ] && grep 'no operation with the name' "$work/out" >/dev/null ||
        wrong "a name with quotes, and a second file: $(cat "$work/out" "$work/err")"
    sed 's/^    .shape = /    .flags = TH_OP_CONTIGUOUS,\n&/' "$source/teaching/exercises/4_softmax.c" >"$work/changed.c"
    exercise 4 "$work/changed.c" --json # (options may follow)
    [ "$status" -eq 1 ] && grep '"summary":"the descriptor at the end of the file was changed' "$work/out" >/dev/null || wrong "a changed descriptor"
    for options in "" 00 11 x "--all 3" "4 $work/none.c" "--seconds 0 1" "--seconds" "1 --seconds" "--build /nonsense 1"; do
        # shellcheck disable=SC2086 # (words)
        exercise $options
        [ "$status" -eq 2 ] && grep -e --help "$work/err" >/dev/null && [ ! -s "$work/out" ] ||
            wrong "exercise.sh $options returns $status: $(cat "$work/out" "$work/err")"
    done
}
