/* Every operation of the registry against fixtures/operations.txt: its operands and the size of its attributes. For
 * each sample the file has the operands' shapes, a digest of all values and gradients in float64, and the costs. It
 * also has the errors of operands with other types and shapes. Other suites show that values and gradients are right.
 * This one shows a sample, a descriptor or a cost that changed by mistake. After an intended change, write the file
 * again: test_operations FILE */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/gradient_check.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

#define LISTED FIXTURES "/operations.txt"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* -- the description of an operation -- */

static double weight(int64_t i)
{
    return (double)(i * 37 % 101 - 50) / 50;
}

/* Writes the sum of the elements, each times its weight. */
static void print_digest(FILE *file, th_tensor *t)
{
    th_tensor *wide = th_contiguous(th_cast(t, TH_FLOAT64));
    ck_assert_msg(wide != NULL, "%s", th_error_message(ctx));
    const size_t bytes = (size_t)th_numel(wide) * sizeof(double);
    double *x = malloc(bytes + 1), sum = 0;
    ck_assert_int_eq(th_copy_out(wide, x, bytes), TH_OK);
    for (int64_t i = 0; i < th_numel(wide); i++)
        sum += weight(i) * x[i];
    free(x);
    fprintf(file, " %.12g", isnan(sum) ? (double)NAN : fabs(sum) < 1e-12 ? 0 : sum);
}

static void print_operand(FILE *file, th_tensor *t)
{
    if (t == NULL) {
        fprintf(file, " none");
        return;
    }
    fprintf(file, " %s (", th_dtype_name(th_dtype_of(t)));
    for (int i = 0; i < th_ndim(t); i++)
        fprintf(file, "%s%lld", i ? ", " : "", (long long)th_size(t, i));
    fprintf(file, ")");
    print_digest(file, t);
}

/* Writes what the shape rule says about the sample with another input i: the code of its error, or a dot. */
static void print_verdict(FILE *file, const th_op *op, const th_sample *sample, th_tensor **inputs, int i,
                          th_dtype dtype, th_shape shape)
{
    th_tensor *const right = inputs[i];
    inputs[i] = th_zeros(ctx, dtype, shape);
    ck_assert_msg(inputs[i] != NULL, "%s", th_error_message(ctx));
    const th_status status = th_apply_check(op, sample->attributes, sample->n_inputs, inputs);
    const char *const message = th_error_message(ctx);
    const size_t length = strlen(op->name);
    ck_assert_int_eq(status, th_error_code(ctx));
    ck_assert_msg(status == TH_OK || (strncmp(message, op->name, length) == 0 && message[length] == ':'),
                  "the error does not name %s: %s", op->name, message);
    fputc(status == TH_OK ? '.' : '0' + (int)status, file);
    th_error_clear(ctx);
    th_tensor_free(inputs[i]);
    inputs[i] = right;
}

/* Writes the verdicts on other types of input i, on each size one larger, and on one dimension more or less. */
static void print_verdicts(FILE *file, const th_op *op, const th_sample *sample, th_tensor **inputs, int i)
{
    const th_dtype dtype = th_dtype_of(inputs[i]);
    const th_shape shape = th_shape_of(inputs[i]);
    fputc(' ', file);
    for (int other = TH_FLOAT32; other <= TH_BOOL; other++)
        print_verdict(file, op, sample, inputs, i, (th_dtype)other, shape);
    fputc('/', file);
    for (int d = 0; d < shape.ndim; d++) {
        th_shape larger = shape;
        larger.size[d]++;
        print_verdict(file, op, sample, inputs, i, dtype, larger);
    }
    th_shape more = shape, less = shape;
    more.size[more.ndim++] = 1;
    print_verdict(file, op, sample, inputs, i, dtype, more);
    less.ndim--;
    if (shape.ndim > 0)
        print_verdict(file, op, sample, inputs, i, dtype, less);
}

/* Runs backward from y and writes the digests of the gradients. */
static void print_gradients(FILE *file, th_tensor *y, const th_sample *sample, th_tensor *const *inputs)
{
    th_tensor *cotangent = th_zeros(ctx, TH_FLOAT64, th_shape_of(y));
    for (int64_t i = 0; i < th_numel(y); i++)
        ((double *)th_data(cotangent))[i] = weight(i + 1);
    fprintf(file, "; gradients");
    ck_assert_msg(th_backward(y, &(th_backward_options){.cotangent = cotangent}) == TH_OK, "%s", th_error_message(ctx));
    for (int i = 0; i < sample->n_inputs; i++) {
        th_tensor *gradient = inputs[i] ? th_gradient(inputs[i]) : NULL;
        if (gradient)
            print_digest(file, gradient);
        else
            fprintf(file, " none");
    }
    th_tensor_free(cotangent);
}

/* Writes what the gradient check reads of a sample, apart from the values. */
static void print_limits(FILE *file, const th_sample *sample)
{
    fprintf(file, "; tolerance %g", sample->tolerance);
    for (int i = 0; i < sample->n_inputs && i < TH_MAX_INPUTS; i++)
        for (int k = 0; k < sample->input[i].n_kinks; k++)
            fprintf(file, "%s %g +- %g", k == 0 ? " kinks" : "", sample->input[i].kinks[k], sample->input[i].clearance);
}

static void print_sample(FILE *file, const th_op *op, const th_sample *sample)
{
    th_tensor *input[TH_MAX_SAMPLE_INPUTS], *extra[TH_MAX_OUTPUTS] = {NULL}, **wanted[TH_MAX_OUTPUTS];
    ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 7, input), TH_OK);
    fprintf(file, "  %s:", sample->name);
    for (int i = 0; i < sample->n_inputs; i++) {
        print_operand(file, input[i]);
        if (input[i] && th_dtype_of(input[i]) == TH_FLOAT64 && !sample->input[i % TH_MAX_INPUTS].constant)
            ck_assert_ptr_nonnull(th_set_requires_gradient(input[i], true));
    }
    th_tape_clear(ctx);
    for (int i = 0; i < TH_MAX_OUTPUTS; i++)
        wanted[i] = &extra[i];
    th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, input, wanted);
    ck_assert_msg(y != NULL, "%s, sample %s: %s", op->name, sample->name, th_error_message(ctx));
    th_node_info node = {.multiply_adds = 0};
    if (th_tape_length(ctx) > 0)
        ck_assert_int_eq(th_tape_node(ctx, 0, &node), TH_OK);
    fprintf(file, " ->");
    print_operand(file, y);
    for (int i = 0; i + 1 < op->n_outputs; i++)
        print_operand(file, extra[i]);
    if (th_requires_gradient(y))
        print_gradients(file, y, sample, input);
    print_limits(file, sample);
    fprintf(file, "; %lld multiply-adds, %zu bytes; errors", (long long)node.multiply_adds, node.saved_bytes);
    th_tape_clear(ctx);
    for (int i = 0; i < sample->n_inputs; i++)
        if (input[i])
            print_verdicts(file, op, sample, input, i);
    fprintf(file, "\n");
    for (int i = 0; i < sample->n_inputs; i++)
        th_tensor_free(input[i]);
}

static void print_operation(FILE *file, const th_op *op)
{
    fprintf(file, "%s: %d inputs, optional 0x%x, %d outputs, differentiable 0x%x, attributes %s%s%s\n", op->name,
            op->n_inputs, op->optional, op->n_outputs, op->differentiable_outputs, op->attributes_size ? "yes" : "no",
            op->composed ? ", fused" : "", op->not_differentiable ? ", not differentiable" : "");
    fprintf(file, "  descriptor: flags 0x%x, saves 0x%x, identities 0x%x, %zu bytes of plan\n", op->flags, op->saves,
            op->identity_gradients, op->plan_size);
    th_set_seed(ctx, 11);
    for (const th_sample *sample = op->samples; sample && sample->name; sample++)
        print_sample(file, op, sample);
    fprintf(file, "\n");
}

/* -- the comparison with the file -- */

/* Returns the operation's part of the file, which ends with an empty line. */
static char *listed_text(const char *name) /* free */
{
    FILE *file = fopen(LISTED, "r");
    ck_assert_msg(file != NULL, "%s cannot be read", LISTED);
    char *text = NULL, *line = NULL;
    size_t size = 0, capacity = 0;
    FILE *part = open_memstream(&text, &size);
    const size_t length = strlen(name);
    bool inside = false;
    while (getline(&line, &capacity, file) > 0 && !(inside && line[0] == '\n')) {
        inside |= strncmp(line, name, length) == 0 && line[length] == ':';
        if (inside)
            fputs(line, part);
    }
    fputs("\n", part);
    fclose(part);
    fclose(file);
    free(line);
    return text;
}

/* Returns whether both words begin with the same number, apart from rounding, and end with the same characters. */
static bool same_word(const char *a, const char *b)
{
    char *a_end, *b_end;
    const double x = strtod(a, &a_end), y = strtod(b, &b_end);
    const bool same = (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-9 * fmax(1, fabs(y));
    return strcmp(a, b) == 0 || (a_end > a && b_end > b && same && strcmp(a_end, b_end) == 0);
}

static void compare_lines(const char *name, char *found, char *listed)
{
    char *found_at, *listed_at;
    const char *a = strtok_r(found, " ", &found_at), *b = strtok_r(listed, " ", &listed_at);
    for (int word = 0; a || b; word++) {
        ck_assert_msg(a && b && same_word(a, b), "%s: word %d of this line is \"%s\"; the file has \"%s\"", name, word,
                      a ? a : "missing", b ? b : "nothing");
        a = strtok_r(NULL, " ", &found_at);
        b = strtok_r(NULL, " ", &listed_at);
    }
}

/* Removes the size of the plan from a descriptor's line. The file has the size with pointers of 64 bits. */
static void remove_plan(char *line)
{
    if (strstr(line, " bytes of plan"))
        *strrchr(line, ',') = 0;
}

START_TEST(every_operation_is_as_listed)
{
    const th_op *op = th_op_at(_i);
    ck_assert_ptr_eq(th_op_find(op->name), op);
    ck_assert_msg(op->value && op->value[0], "%s has no formula", op->name);
    ck_assert_msg(op->gradient && op->gradient[0], "%s has no formula of its gradient", op->name);
    ck_assert_msg(op->samples && op->samples[0].name, "%s has no samples", op->name);
    char *found = NULL, *listed = listed_text(op->name), *found_at, *listed_at;
    size_t size = 0;
    FILE *file = open_memstream(&found, &size);
    print_operation(file, op);
    fclose(file);
    char *a = strtok_r(found, "\n", &found_at), *b = strtok_r(listed, "\n", &listed_at);
    for (; a || b; a = strtok_r(NULL, "\n", &found_at), b = strtok_r(NULL, "\n", &listed_at)) {
        char title[200];
        snprintf(title, sizeof title, "%s, \"%.100s\"", op->name, a ? a : "");
        ck_assert_msg(a && b, "%s: the file has \"%s\"", title, b ? b : "no such line");
        if (sizeof(void *) != 8) {
            remove_plan(a);
            remove_plan(b);
        }
        compare_lines(title, a, b);
    }
    free(found);
    free(listed);
}
END_TEST

START_TEST(every_listed_operation_exists)
{
    FILE *file = fopen(LISTED, "r");
    ck_assert_msg(file != NULL, "%s cannot be read", LISTED);
    char *line = NULL;
    size_t capacity = 0;
    int operations = 0;
    while (getline(&line, &capacity, file) > 0) {
        if (line[0] == ' ' || line[0] == '\n' || line[0] == '#')
            continue;
        line[strcspn(line, ":")] = 0;
        ck_assert_msg(th_op_find(line) != NULL, "there is no operation \"%s\"", line);
        operations++;
    }
    free(line);
    fclose(file);
    ck_assert_int_eq(operations, th_op_count());
}
END_TEST

static const char *new_file;

START_TEST(the_file_is_written)
{
    FILE *file = fopen(new_file, "w");
    ck_assert_msg(file != NULL, "%s cannot be written", new_file);
    fprintf(file, "# The operations of the registry with digests of their samples, for test_operations.c.\n\n");
    for (int i = 0; i < th_op_count(); i++)
        print_operation(file, th_op_at(i));
    ck_assert_int_eq(fclose(file), 0);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tcase = new_suite("operations", setup, close_context);
    new_file = argc == 2 ? argv[1] : NULL;
    if (new_file) {
        tcase_add_test(tcase, the_file_is_written);
        return run_suites();
    }
    tcase_add_loop_test(tcase, every_operation_is_as_listed, 0, th_op_count());
    tcase_add_test(tcase, every_listed_operation_exists);
    return run_suites();
}
