/* Runs the student's functions in another process (marker.h, message.h).
 *
 * Each array travels as a region of memory that begins and ends far from its elements. The marker fills the gaps with a
 * known number and finds out from the answer whether an element of the gap was written. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "message.h"

enum { MARGIN = 16, CLOCK_FACTOR = 10 }; /* elements; the time on the clock, in limits of processor time */
static const double OUTSIDE = 54321;

static struct {
    pid_t process;
    int requests, answers, seconds;
    time_t end;
    mark_outside outside[INPUTS];
    bool any_outside;
} remote;

/* -- the process -- */

/* In the new process: leaves it nothing of the marker's but the two pipes, and standard error for what the student
 * prints. */
static _Noreturn void become_runner(const mark_runner *runner, int requests, int answers)
{
    const rlim_t memory = (rlim_t)2 << 30, seconds = (rlim_t)runner->seconds;
    const int highest = 256;
    requests = fcntl(requests, F_DUPFD, highest);
    answers = fcntl(answers, F_DUPFD, highest + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    if (dup2(requests, REQUESTS) < 0 || dup2(answers, ANSWERS) < 0)
        _exit(EXIT_FAILURE);
    for (int file = ANSWERS + 1; file <= highest + 8; file++)
        close(file);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_AS, &(struct rlimit){memory, memory});
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds + 1}); /* SIGXCPU, then SIGKILL */
    char libraries[4096] = "LD_LIBRARY_PATH=";
    const char *path = getenv("LD_LIBRARY_PATH");
    append_text(libraries, sizeof libraries, "%s", path ? path : "");
    execve(runner->program,
           (char *const[]){(char *)(uintptr_t)runner->program, (char *)(uintptr_t)runner->library, NULL},
           (char *const[]){path ? libraries : NULL, NULL});
    perror(runner->program);
    _exit(EXIT_FAILURE);
}

/* Ends the runner and the check, with a sentence. */
static _Noreturn void end_runner(void)
{
    int status = 0;
    if (time(NULL) >= remote.end)
        kill(remote.process, SIGKILL);
    close(remote.requests);
    close(remote.answers);
    while (waitpid(remote.process, &status, 0) < 0 && errno == EINTR)
        continue;
    end_by_status(status, remote.seconds);
}

/* Receives bytes before the clock says that the time is over. */
static void receive_in_time(void *data, size_t bytes)
{
    struct pollfd file = {.fd = remote.answers, .events = POLLIN};
    for (ssize_t count = 0; bytes > 0; data = (char *)data + count, bytes -= (size_t)count) {
        const time_t now = time(NULL);
        if (now >= remote.end || (poll(&file, 1, (int)(remote.end - now) * 1000) <= 0 && errno != EINTR))
            end_runner();
        count = read(remote.answers, data, bytes);
        if (count <= 0)
            end_runner();
    }
}

static void send_request(const void *data, size_t bytes)
{
    if (!send_all(remote.requests, data, bytes))
        end_runner();
}

/* Receives an answer, and ends the check if something stopped the code. An answer never says that a check is right. */
static void receive_answer(message_answer *answer)
{
    receive_in_time(answer, sizeof *answer);
    answer->cause[CAUSE - 1] = answer->sentence[CAUSE - 1] = answer->name[NAME - 1] = '\0';
    if (answer->state != NOT_RUN)
        end_guarded(answer->state == BLANK ? BLANK : WRONG, answer->cause, "%s", answer->sentence);
}

void runner_start(const mark_runner *runner, const mark_report *report, mark_result *r)
{
    int requests[2], answers[2];
    static message_answer answer;
    signal(SIGPIPE, SIG_IGN);
    if (pipe(requests) != 0 || pipe(answers) != 0 || (remote.process = fork()) < 0)
        end_guarded(STOPPED, "", "the marker cannot start a process");
    if (remote.process == 0)
        become_runner(runner, requests[0], answers[1]);
    close(requests[0]);
    close(answers[1]);
    remote.requests = requests[1];
    remote.answers = answers[0];
    remote.seconds = runner->seconds;
    remote.end = time(NULL) + CLOCK_FACTOR * runner->seconds;
    receive_answer(&answer);
    const mark_subject *subject = report->subject;
    if (strcmp(answer.name, subject->name) != 0)
        end_guarded(WRONG, "", "the file's operation is \"%s\", but exercise %d is \"%s\"", answer.name, report->number,
                    subject->name);
    if (answer.n_inputs != subject->n_inputs || answer.changed)
        end_guarded(WRONG, "", "the descriptor at the end of the file was changed: restore its lines");
    r->state = RIGHT;
}

/* -- arrays -- */

/* An array of a call, and the region of memory that travels. */
typedef struct region {
    message_array *m;
    const th_array *array;
    char *memory;
} region;

static int64_t offset_of(const th_array *a, int64_t n)
{
    int64_t offset = 0;
    for (int d = a->ndim - 1; d >= 0; n /= a->size[d], d--)
        offset += n % a->size[d] * a->stride[d];
    return offset;
}

/* Describes the array. The margins are wide enough for offsets that are 8 times too large. */
static void describe(const th_array *a, message_array *m)
{
    int64_t low = 0, high = 0;
    *m = (message_array){.given = a->given,
                         .has_data = a->given && a->data,
                         .dtype = a->dtype,
                         .ndim = a->ndim,
                         .element = (int64_t)th_dtype_size(a->dtype)};
    memcpy(m->size, a->size, sizeof m->size);
    memcpy(m->stride, a->stride, sizeof m->stride);
    for (int d = 0; d < a->ndim && th_array_numel(a) > 0; d++)
        *(a->stride[d] < 0 ? &low : &high) += (a->size[d] - 1) * a->stride[d];
    m->first = MARGIN - 8 * low;
    m->slots = m->first + 8 * high + 1 + MARGIN;
}

static void send_region(region *g)
{
    const message_array *m = g->m;
    g->memory = calloc((size_t)m->slots, (size_t)m->element);
    if (g->memory == NULL)
        end_guarded(STOPPED, "", "the marker has no memory");
    for (int64_t i = 0; m->dtype == TH_FLOAT64 && i < m->slots; i++)
        memcpy(g->memory + i * m->element, &OUTSIDE, sizeof OUTSIDE);
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        memcpy(g->memory + m->first * m->element + offset, (const char *)g->array->data + offset, (size_t)m->element);
    }
    send_request(g->memory, (size_t)(m->slots * m->element));
}

/* Compares what came back with what was sent, outside the elements. */
static mark_outside outside_of(const region *g, char *received)
{
    const message_array *m = g->m;
    char *first = received + m->first * m->element;
    bool bytes = true;
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        bytes = bytes && (offset == 0 || memcmp(first + 8 * offset, g->memory + m->first * m->element + 8 * offset,
                                                (size_t)m->element) != 0);
    }
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        memcpy(first + offset, g->memory + m->first * m->element + offset, (size_t)m->element);
    }
    if (memcmp(received, g->memory, (size_t)(m->slots * m->element)) == 0)
        return NOTHING_OUTSIDE;
    return bytes ? BYTES_OUTSIDE : SOMETHING_OUTSIDE;
}

/* Receives the region and copies its elements to the array, if the call may write it. */
static mark_outside receive_region(const region *g, bool writable)
{
    const message_array *m = g->m;
    char *received = malloc((size_t)(m->slots * m->element));
    if (received == NULL)
        end_guarded(STOPPED, "", "the marker has no memory");
    receive_in_time(received, (size_t)(m->slots * m->element));
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        const char *element = received + m->first * m->element + offset;
        if (writable)
            memcpy((char *)g->array->data + offset, element, (size_t)m->element);
        else if (memcmp(element, (const char *)g->array->data + offset, (size_t)m->element) != 0)
            end_guarded(WRONG, "your lines may read the inputs and dy, and write the gradients only",
                        "an array that must only be read was written");
    }
    const mark_outside outside = outside_of(g, received);
    free(received);
    return outside;
}

/* -- calls -- */

static void add_arrays(message_call *m, region *regions, int first, th_array *arrays, int count)
{
    for (int i = 0; arrays && i < count; i++) {
        describe(&arrays[i], &m->array[first + i]);
        regions[first + i] = (region){.m = &m->array[first + i], .array = &arrays[i]};
    }
}

static void call_remote(const th_call *c, bool backward)
{
    static message_call m;
    static message_answer answer;
    region regions[ARRAYS] = {{.m = NULL}};
    m = (message_call){
        .backward = backward, .training = c->training, .n_inputs = c->n_inputs, .n_outputs = c->n_outputs};
    add_arrays(&m, regions, OF_INPUT, c->input, c->n_inputs);
    add_arrays(&m, regions, OF_OUTPUT, c->output, c->n_outputs);
    if (backward) {
        add_arrays(&m, regions, OF_OUTPUT_GRADIENT, c->output_gradient, c->n_outputs);
        add_arrays(&m, regions, OF_INPUT_GRADIENT, c->input_gradient, c->n_inputs);
        memcpy(m.add, c->add, sizeof *m.add * (size_t)c->n_inputs);
    }
    send_request(&m, sizeof m);
    for (int i = 0; i < ARRAYS; i++)
        if (m.array[i].has_data)
            send_region(&regions[i]);
    receive_answer(&answer);
    for (int i = 0; i < ARRAYS; i++) {
        if (!m.array[i].has_data)
            continue;
        const bool gradient = i >= OF_INPUT_GRADIENT, output = i >= OF_OUTPUT && i < OF_OUTPUT_GRADIENT;
        const mark_outside outside = receive_region(&regions[i], gradient || (output && !backward));
        remote.any_outside = remote.any_outside || outside != NOTHING_OUTSIDE;
        if (gradient)
            remote.outside[i - OF_INPUT_GRADIENT] = outside;
        free(regions[i].memory);
    }
}

static void remote_forward(const th_call *c)
{
    call_remote(c, false);
}

static void remote_backward(const th_call *c)
{
    call_remote(c, true);
}

th_op remote_op(const th_op *original)
{
    th_op op = *original;
    op.forward = remote_forward;
    op.backward = remote_backward;
    return op;
}

mark_outside remote_outside(int input)
{
    return remote.outside[input];
}

bool remote_any_outside(void)
{
    return remote.any_outside;
}
