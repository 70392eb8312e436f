/* Lesson 9: the memory of a training step, with and without recomputation. teaching/lessons/9-memory.md explains it. */
#include "lesson.h"

enum { N = 16, WIDTH = 128 }; /* steps of a chain; numbers in a vector, which are 1024 bytes */

static double x[N + 1][WIDTH], dx[WIDTH], on_tape[WIDTH]; /* x[i + 1] = tanh(x[i]), L = sum x[N] */
static int vectors, most;                                 /* the vectors that must be in memory: now, and at most */

static void hold(int more)
{
    vectors += more;
    most = vectors > most ? vectors : most;
}

static void forward(int first, int last)
{
    for (int i = first; i < last; i++)
        for (int n = 0; n < WIDTH; n++)
            x[i + 1][n] = tanh(x[i][n]);
}

/* Forward and backward in segments of k steps. Only the last vector of each is saved for backward. */
static void plain(int k)
{
    vectors = most = 0;
    forward(0, N);
    for (int n = 0; n < WIDTH; n++)
        dx[n] = 1;
    hold(N / k + 1); /* the last vector of each segment, and dx */
    for (int first = N - k; first >= 0; first -= k) {
        forward(first, first + k - 1); /* again: all vectors of the segment but the last */
        hold(k - 1);
        for (int i = first + k; i > first; i--) {
            for (int n = 0; n < WIDTH; n++)
                dx[n] *= 1 - x[i][n] * x[i][n];
            hold(-1);
        }
    }
}

/* Returns the bytes that all nodes have saved for backward. */
static size_t saved_bytes(th_context *ctx)
{
    size_t sum = 0;
    th_node_info node;
    for (int64_t i = 0; i < th_tape_length(ctx) && th_tape_node(ctx, i, &node) == TH_OK; i++)
        sum += node.saved_bytes;
    return sum;
}

/* The same on the tape. Prints the bytes. */
static void tape(th_context *ctx, th_tensor *start, int k)
{
    th_tape_clear(ctx);
    th_empty_gradient(start);
    th_memory_reset_peak(ctx);
    const size_t before = th_memory(ctx).live;
    th_tensor *t = start;
    for (int first = 0; first < N; first += k) {
        (k > 1 ? th_scope_begin_recomputed : th_scope_begin)(ctx, "segment");
        for (int i = 0; i < k; i++)
            t = th_tanh(t);
        t = th_scope_end(ctx, t);
    }
    printf("%2d %12d %12zu", k, most * WIDTH * 8, saved_bytes(ctx));
    if (!th_backward(th_sum(t, TH_ALL_AXES, NULL), NULL) && !th_copy_out(th_gradient(start), on_tape, sizeof on_tape))
        printf(" %12zu\n%s", th_memory(ctx).peak - before, k < N ? "" : "\n");
}

/* Forecasts what a training step of GPT-2 with 124 million parameters saves, for 8 sequences of 1024 tokens. */
static void forecast(bool recompute)
{
    th_context *ctx = th_context_new(&(th_context_options){.shapes_only = true});
    const th_language_model_options gpt2 = {50257, 1024, 768, 12, 12, .block.recompute = recompute};
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(8, 1024));
    th_language_model_loss(th_language_model_new(ctx, &gpt2), tokens, tokens, NULL);
    printf("GPT-2%s: %zu bytes saved%s\n", recompute ? ", recomputed" : "", saved_bytes(ctx), th_error_message(ctx));
    th_context_free(ctx);
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 9, memory: a chain of 16 steps with recomputed segments");
    for (int n = 0; n < WIDTH; n++)
        x[0][n] = (double)n / WIDTH;
    th_tensor *start = leaf(ctx, "x0", TH_SHAPE(WIDTH), x[0]);
    if (th_backward(th_sum(th_tanh(th_tanh(start)), TH_ALL_AXES, NULL), NULL) || write_page(ctx))
        return end_lesson(ctx);
    th_keep_values(ctx, false); /* after a first step, in which start received memory for its gradient */
    printf(" k plain C peak   tape saved    tape peak\n");
    for (int k = 1; k <= N; k *= 2) {
        plain(k);
        tape(ctx, start, k);
        for (int n = 0; n < WIDTH; n++, lesson.compared++)
            lesson.wrong += !(fabs(on_tape[n] - dx[n]) <= 1e-12);
    }
    show("the end of dx", 1, 4, &dx[WIDTH - 4], th_slice(th_gradient(start), 0, WIDTH - 4, WIDTH, 1));
    forecast(false), forecast(true);
    return end_lesson(ctx);
}
