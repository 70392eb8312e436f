/* exercise_runner: runs a student's operation for exercise_marker, which starts this program for each check. It
 * reads calls, runs them, and answers with the numbers. It does not know which numbers are right. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../marker/message.h"
#include "sandbox.h"

static _Noreturn void end_with(message_answer *answer)
{
    fflush(NULL);
    send_all(ANSWERS, answer, sizeof *answer);
    _exit(EXIT_SUCCESS);
}

/* In the runner: answers with a sentence instead of numbers. */
void end_guarded(mark_state s, const char *cause, const char *format, ...)
{
    static message_answer answer;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer.sentence, sizeof answer.sentence, format, arguments);
    va_end(arguments);
    snprintf(answer.cause, sizeof answer.cause, "%s", cause);
    answer.state = s;
    end_with(&answer);
}

/* Loads the operation and describes it. */
static const th_op *load(const char *library)
{
    static message_answer answer;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror(), *undefined = strstr(reason, "undefined symbol: ");
        if (undefined)
            end_guarded(STOPPED, "", "the file calls a function that does not exist: %s",
                        undefined + strlen("undefined symbol: "));
        end_guarded(STOPPED, "", "the compiled file cannot be loaded: %s", reason);
    }
    const th_op *op = dlsym(handle, "exercise");
    if (op == NULL)
        end_guarded(STOPPED, "", "the file has no operation with the name `exercise`: keep its last lines");
    snprintf(answer.name, sizeof answer.name, "%s", op->name ? op->name : "");
    answer.n_inputs = op->n_inputs;
    answer.changed = !op->shape || !op->forward || !op->backward || op->flags || op->plan || op->attributes_size;
    if (!send_all(ANSWERS, &answer, sizeof answer))
        _exit(EXIT_FAILURE);
    return op;
}

/* Receives the memory of an array. Returns its beginning, or NULL. */
static char *receive_array(const message_array *m, th_array *a)
{
    char *memory = NULL;
    if (m->has_data) {
        memory = malloc((size_t)(m->slots * m->element));
        if (memory == NULL || !receive(REQUESTS, memory, (size_t)(m->slots * m->element)))
            _exit(EXIT_FAILURE);
    }
    *a = array_of_message(m, memory);
    return memory;
}

static void run_call(const th_op *op, message_call *m)
{
    static const message_answer done = {.state = NOT_RUN};
    th_array array[ARRAYS];
    char *memory[ARRAYS];
    for (int i = 0; i < ARRAYS; i++)
        memory[i] = receive_array(&m->array[i], &array[i]);
    const th_call call = call_of_message(op, m, array);
    (m->backward ? op->backward : op->forward)(&call);
    if (!send_all(ANSWERS, &done, sizeof done))
        _exit(EXIT_FAILURE);
    for (int i = 0; i < ARRAYS; i++) {
        if (memory[i] && !send_all(ANSWERS, memory[i], (size_t)(m->array[i].slots * m->array[i].element)))
            _exit(EXIT_FAILURE);
        free(memory[i]);
    }
}

int main(int argc, char **argv)
{
    static message_call m;
    if (argc != 2) {
        fprintf(stderr, "exercise_runner: exercise_marker starts this program\n");
        return 2;
    }
    enter_sandbox(argv[1]);
    const th_op *op = load(argv[1]);
    while (receive(REQUESTS, &m, sizeof m))
        run_call(op, &m);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}
