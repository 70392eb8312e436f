/* Tests that examples/attention_backward.c finds a wrong gradient: it names the matrix and the element, and fails. The
 * test includes the program and breaks its plain loops. */
#define backward right_backward
#include "../../examples/attention_backward/loops.c"
#undef backward

/* The error in the loops. */
static enum { NOTHING, SCORES, SCORES_OF_A_HEAD, WEIGHTS } broken;

void backward(const struct numbers *n, struct numbers *g)
{
    right_backward(n, g);
    if (broken == SCORES)
        g->s[0][2][1] += 0.5;
    if (broken == SCORES_OF_A_HEAD)
        g->s[1][0][2] += 0.5;
    if (broken == WEIGHTS)
        g->wq[3][1] += 0.5;
}

#define main program_main
#include "../../examples/attention_backward.c"
#undef main
#include "../../examples/attention_backward/print.c"
#include "../../examples/attention_backward/values.c"

#include <sys/wait.h>
#include <unistd.h>

#include "context.h"

/* Runs the program with --heads, and checks that its output contains the words and that it exits with this status. */
static void expect(const char *heads_of, int status, const char *words)
{
    static char output[1 << 16];
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {(char[]){"attention_backward"}, (char[]){"--heads"}, (char[]){"0"}, NULL};
        arguments[2][0] = heads_of[0];
        dup2(fileno(file), STDOUT_FILENO);
        const int result = program_main(3, arguments);
        fflush(stdout);
        _exit(result);
    }
    int ended = 0;
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    ck_assert(WIFEXITED(ended));
    ck_assert_int_eq(WEXITSTATUS(ended), status);
    rewind(file);
    output[fread(output, 1, sizeof output - 1, file)] = 0;
    fclose(file);
    ck_assert_msg(strstr(output, words) != NULL, "no \"%s\" in\n%s", words, output);
}

START_TEST(a_wrong_loop_is_named_with_its_element)
{
    broken = NOTHING;
    expect("1", EXIT_SUCCESS, ", 0 wrong");
    broken = SCORES;
    expect("1", EXIT_FAILURE, "  WRONG: dS[2,1]: tape ");
    broken = SCORES_OF_A_HEAD;
    expect("2", EXIT_FAILURE, "  WRONG: dS of head 1[0,2]: tape ");
    broken = WEIGHTS;
    expect("2", EXIT_FAILURE, "  WRONG: dWq[3,1]: tape ");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("attention backward", NULL, NULL);
    tcase_add_test(tcase, a_wrong_loop_is_named_with_its_element);
    return run_suites();
}
