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
    expect 'at(dx, 0, C) = 1;' "index 1 is 4, but the array is (2, 4): it must be at least 0 and below 4"
    expect 'at(dx, 0) = 1;' "has 1 index, but the array is (2, 4)"
    expect 'at(&c->input[X], 0, 0) = 1;' "at(&c->input[X], 0, 0)"
    expect 'for (int64_t i = 0; i < N * C; i++) at(dx, i / C, i % C) = NAN;' "the analytic gradient is not a number"
    expect '' "dx was not written at all"
    expect 'for (int64_t i = 0; i < N * C; i++) at(dx, i / C, i % C) = 0.5 * at(dy, i / C, i % C);' "should be" ""
    sed 's/int64_t j = 0/int64_t j = 1/' "$(solution_of 4)" >"$work/loop"
    expect "$(cat "$work/loop")" "only the first index of axis 1 of dx is wrong: check where the loop begins"
    # The gradient checker's guess is not a likely cause if another check finds a mistake that explains all numbers.
    sed -e '1i double sum = 0;' -e '/^    double sum = 0;/d' "$(solution_of 4)" >"$work/kept"
    expect "$(cat "$work/kept")" "Likely cause: the sum of a row contains the rows before it" ""
    ! grep -F "Likely cause: the function does not depend" "$work/out" || wrong "the gradient checker's guess is printed"
    # What the student prints does not mix with the report.
    expect 'extern int puts(const char *); puts("{\"passed\":true}");' "Likely cause:" ""
    expect 'extern int puts(const char *); puts("{\"passed\":true}");' '{"exercise":4'
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
    for options in "" 0 11 x "--all 3" "4 $work/none.c" "--seconds 0 1" "--seconds" "1 --seconds" "--build /nonsense 1"; do
        # shellcheck disable=SC2086 # (words)
        exercise $options
        [ "$status" -eq 2 ] && grep -e --help "$work/err" >/dev/null && [ ! -s "$work/out" ] ||
            wrong "exercise.sh $options returns $status: $(cat "$work/out" "$work/err")"
    done
}
