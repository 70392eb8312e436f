/* The backward pass of attention: prints every number of scaled dot-product attention on three tokens, forward and
 * backward.
 *
 * Each gradient is computed in three ways: by the tape (this file), by its formula in plain loops
 * (attention_backward/loops.c: read it first), and by central differences (L(x + h) - L(x - h)) / 2h. The program fails
 * if two of them differ. It trains no model and is not optimized. docs/attention-backward.md shows its output with the
 * derivation. */
#include <math.h>
#include <string.h>
#include <tapehead/tapehead.h>

#include "attention_backward/print.h"
#include "options.h"

static const char program[] = "attention_backward";

int heads = 1;
bool causal;
double dropout;
static const char *page;

static const struct numbers input = {
    .f = {{1, 0, -1, 0.5}, {0.5, 1, 0, -1}, {-0.5, 1, 1, 0}},
    .wq = {{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, -1, 0}, {0, 0.5, 0, 1}},
    .wk = {{0.5, 1, 0, 0}, {-1, 1, 0, 0}, {0, 0, 1, 0.5}, {0, 0.5, -0.5, 1}},
    .wv = {{1, 0, 0, 1}, {0, 1, 1, 0}, {0, -1, 1, 0}, {1, 0, 0, -1}},
    .wo = {{1, 0.5, 0, 0}, {0, 1, 0.5, 0}, {0, 0, 1, 0.5}, {0.5, 0, 0, 1}},
    .q = {{1, 0}, {0, 2}, {1, 1}},
    .k = {{1, 0.5}, {-1, 1.5}, {0.5, -1}},
    .v = {{1, 2}, {3, -1}, {-2, 0.5}},
    .target = {{0, 1, 0.5, 0}, {1, 0, -0.5, 1}, {0.5, 0.5, 0, -1}},
};

/* -- attention on the tape, composed of operations, so that S, A and P are accessible -- */

static th_tensor *new_constant(th_context *ctx, struct numbers *n, int which)
{
    double packed[SIZE * SIZE];
    for (int i = 0; i < count_of(which); i++)
        packed[i] = *element(n, which, i);
    return th_from_data(ctx, TH_FLOAT64, TH_SHAPE(rows_of(which), columns_of(which)), packed);
}

/* (T, E) -> (H, T, D), a view */
static th_tensor *split_heads(th_tensor *x)
{
    return th_transpose(th_reshape(x, TH_SHAPE(T, heads, D)), TH_AXES(1, 0, 2));
}

/* Records the computation; tape[VALUES], all NULL before, receives its values. Returns the loss. */
static th_tensor *record_attention(th_context *ctx, struct numbers *n, th_tensor **tape)
{
    const th_mask mask = {.causal = causal ? TH_CAUSAL_TOP_LEFT : TH_CAUSAL_NONE};
    th_tensor *keep = th_mask_keep(ctx, &mask, TH_SHAPE(heads, T, T)); /* NULL: nothing is hidden */
    for (int which = 0; which < VALUES; which++)
        if (is_leaf(which))
            tape[which] = th_set_requires_gradient(new_constant(ctx, n, which), true);
    if (heads > 1) {
        tape[Q] = th_dense(tape[F], tape[WQ], NULL);
        tape[K] = th_dense(tape[F], tape[WK], NULL);
        tape[V] = th_dense(tape[F], tape[WV], NULL);
    }
    th_tensor *q = split_heads(tape[Q]), *k = split_heads(tape[K]), *v = split_heads(tape[V]);
    k = th_swap_axes(k, -1, -2); /* (H, D, T) */
    tape[S] = th_scale(th_masked_matmul(q, k, keep, TH_MASK_RESULT), 1 / sqrt(D));
    tape[A] = th_masked_softmax(tape[S], &mask);
    tape[P] = th_dropout(tape[A], dropout);
    th_tensor *o = th_masked_matmul(tape[P], v, keep, TH_MASK_LEFT);
    tape[O] = th_reshape(th_transpose(o, TH_AXES(1, 0, 2)), TH_SHAPE(T, heads * D)); /* the heads merged */
    tape[Y] = heads > 1 ? th_dense(tape[O], tape[WO], NULL) : tape[O];
    th_tensor *target = th_set_name(new_constant(ctx, n, TARGET), values[TARGET].name),
              *error = th_sub(tape[Y], target);
    for (int which = 0; which < VALUES; which++)
        if (is_used(which))
            th_set_name(is_leaf(which) ? tape[which] : th_keep_gradient(tape[which]), values[which].name);
    return th_set_name(th_scale(th_sum(th_mul(error, error), TH_ALL_AXES, NULL), 0.5), "L");
}

/* Copies a tensor of the tape into the numbers. */
static th_status read_tensor(th_tensor *t, struct numbers *n, int which)
{
    double packed[MAX_HEADS * SIZE * SIZE];
    const th_status status = th_copy_out(t, packed, (size_t)count_of(which) * sizeof *packed);
    for (int i = 0; i < count_of(which) && !status; i++)
        *element(n, which, i) = packed[i];
    return status;
}

/* Computes the Jacobian da_i / ds_j of the softmax in head 0's last row. Row i is the gradient for the cotangent
 * e_i. */
static th_status jacobian_on_tape(th_context *ctx, th_tensor *s, th_tensor *a, matrix jacobian)
{
    for (int i = 0; i < T; i++) {
        th_tensor *e = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(heads, T, T)), *row = NULL;
        const th_backward_options options = {
            .cotangent = e, .keep_tape = true, .wrt = &s, .n_wrt = 1, .gradients = &row};
        if (th_set(e, TH_INDEX(0, T - 1, i), 1) || th_backward(a, &options))
            return th_error_code(ctx);
        for (int j = 0; j < T; j++)
            jacobian[i][j] = th_get(row, TH_INDEX(0, T - 1, j));
    }
    return TH_OK;
}

/* -- the program -- */

static void parse_command_line(int argc, char **argv)
{
    int64_t number_of_heads = heads;
    const program_option options[] = {
        {"causal", "a query sees no later key", .flag = &causal},
        {"dropout", "probability with which weights are dropped", .real = &dropout, .low = 0, .high = 0.99},
        {"heads", "1, or 2 with the projections around them", .integer = &number_of_heads, .low = 1, .high = MAX_HEADS},
        {"page", "file for a page (HTML) that shows the tape and its backward step by step", .text = &page},
        {0}};
    parse_options(argc, argv, program,
                  "attention_backward: the gradients of attention on three tokens, computed in three ways", options);
    heads = (int)number_of_heads;
}

/* Computes values and gradients on the tape, its dropout factors, and the Jacobian of one softmax row. */
static th_status run_tape(th_context *ctx, struct numbers *n, struct numbers *gradient, matrix jacobian, double *loss)
{
    th_tensor *tape[VALUES] = {NULL}, *l = record_attention(ctx, n, tape);
    if (jacobian_on_tape(ctx, tape[S], tape[A], jacobian) || th_backward(l, NULL))
        return th_error_code(ctx);
    for (int which = 0; which < VALUES; which++)
        if (is_used(which) &&
            (read_tensor(tape[which], n, which) || read_tensor(th_gradient(tape[which]), gradient, which)))
            return th_error_code(ctx);
    for (int h = 0; h < heads; h++)
        for (int t = 0; t < T; t++)
            for (int s = 0; s < T; s++)
                n->m[h][t][s] = dropout == 0 ? 1 : n->p[h][t][s] != 0 ? 1 / (1 - dropout) : 0;
    *loss = th_item(l);
    const th_html_options options = {.title = "Attention on three tokens"};
    return page ? th_tape_write_html(ctx, page, &options) : TH_OK;
}

/* Compares element i of a value on the tape and in the loops. */
static void compare_element(struct numbers *on_tape, struct numbers *n, int which, int i)
{
    const int rows = rows_of(which), columns = columns_of(which);
    const double loops = *element(n, which, i);
    char name[32];
    name_matrix(name, sizeof name, "", which, i / (rows * columns));
    compare(name, i / columns % rows, i % columns, *element(on_tape, which, i), loops, loops);
}

int main(int argc, char **argv)
{
    parse_command_line(argc, argv);
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    struct numbers on_tape = input, gradient[WAYS] = {0};
    matrix jacobian = {{0}};
    double loss = 0;
    th_keep_values(ctx, true);
    if (run_tape(ctx, &on_tape, &gradient[TAPE], jacobian, &loss)) {
        fprintf(stderr, "attention_backward: %s\n", th_error_message(ctx));
        th_context_free(ctx);
        return EXIT_FAILURE;
    }
    th_context_free(ctx);

    struct numbers n = on_tape; /* and the same in plain loops */
    const double same_loss = forward_from(PROJECT, &n);
    backward(&n, &gradient[LOOPS]);
    central_differences(&n, &gradient[DIFFERENCE]);

    printf("%d tokens, %d head%s of size %d", T, heads, heads > 1 ? "s" : "", D);
    if (causal)
        printf(", causal mask");
    if (dropout > 0)
        printf(", dropout %g", dropout);
    printf("\n\n");
    show_forward(&on_tape, loss);
    show_backward(&n, gradient, jacobian);
    compare("L", 0, 0, loss, same_loss, same_loss);
    for (int which = 0; which < VALUES; which++)
        for (int i = 0; is_used(which) && i < count_of(which); i++)
            compare_element(&on_tape, &n, which, i);
    printf("%d numbers compared, %d wrong (tape and loops may differ by 1e-12, central differences by 1e-7)\n",
           compared, wrong);
    finish_output(program);
    if (page)
        print_written(page);
    if (causal)
        print_next(argv[0], "gradcheck_your_op", (const char *const[]){NULL});
    else
        print_next(argv[0], program, (const char *const[]){"--causal", "--heads", "2", NULL});
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
