/* What an error of checkpoints and files of weights says, and what it leaves: no open file, and no memory. */
#include <math.h>

#include "folder.h"
#include "memory.h"
#include "models/saved_models/safetensors_write.h"
#include "tapehead/models.h"
#include "tensor/tensor.h"

#include "context.h"

static test_memory memory;
static th_module *model;
static int64_t position;
static double best;
static char path[256], lines[1024];

static const th_language_model_options small = {.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 1};
static const th_checkpoint_number numbers[] = {{.name = "position", .integer = &position},
                                               {.name = "best", .real = &best}};

static void receive_line(const char *line, void *user)
{
    (void)user;
    strcat(lines, line);
    strcat(lines, "\n");
}

static void setup(void)
{
    make_folder();
    strcpy(path, in_folder("run.safetensors"));
    memory = (test_memory){0};
    lines[0] = 0;
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    model = th_dense_new(ctx, 3, 3, NULL);
    no_error();
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

static th_checkpoint run(th_optimizer *o)
{
    return (th_checkpoint){.model = model, .optimizer = o, .numbers = numbers, .n_numbers = 2, .report = receive_line};
}

static void save(th_optimizer *o)
{
    const th_checkpoint c = run(o);
    ck_assert_msg(th_checkpoint_save(path, &c) == TH_OK, "%s", th_error_message(ctx));
}

/* Writes a checkpoint of the model without an optimizer, with this state. */
static void write_state(const char *state)
{
    th_safetensors_item tensors[2];
    int n = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p); n++)
        tensors[n] =
            (th_safetensors_item){.name = n ? "bias" : "weight", .array = th_tensor_array(th_tensor_impl_of(p.tensor))};
    const th_named_text text = {"tapehead.state", state};
    ck_assert_int_eq(th_safetensors_write_contents(
                         &(th_safetensors_contents){ctx, "test", path, tensors, 2, &text, state != NULL, ".checksums"}),
                     TH_OK);
}

/* -- what a message says -- */

static th_optimizer *grouped(const th_parameter_group *group)
{
    return th_adam_w_new(
        model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.25, .groups = group, .n_groups = 1});
}

START_TEST(options_of_groups_are_compared)
{
    const th_parameter_group half = {.pattern = "bias", .learning_rate_factor = 0.5},
                             quarter = {.pattern = "bias", .learning_rate_factor = 0.25},
                             more = {.pattern = "bias", .learning_rate_factor = 0.5, .weight_decay = 0.75};
    save(grouped(&half));
    th_checkpoint c = run(grouped(&quarter));
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "(in all: 1 different options)");
    c = run(grouped(&more));
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "(in all: 1 different options)");
    ck_assert_str_eq(
        lines, "different option: learning_rate_factor in group 0 of the optimizer is 0.5 in the file and 0.25 here\n"
               "different option: weight_decay in group 0 of the optimizer is 0.25 in the file and 0.75 here\n");
    c = run(grouped(&half));
    ck_assert_int_eq(th_checkpoint_load(path, &c), TH_OK);
}
END_TEST

#define STATE(numbers)                                                                                                 \
    "{\"version\":1,\"random\":{\"seed\":\"0x1\",\"step\":1,\"calls\":[0],\"calls_at_clear\":0},\"optimizer\":null,"   \
    "\"numbers\":" numbers ",\"parameters\":{\"weight\":{\"steps\":0,\"group\":-1,\"frozen\":false},\"bias\":{"        \
    "\"steps\":0,\"group\":-1,\"frozen\":true}}}"

START_TEST(numbers_have_the_types_that_are_asked_for)
{
    static const char integer[] = "different type: the number \"position\" is not of type integer in the file\n",
                      real[] = "different type: the number \"best\" is not of type real in the file\n";
    const struct {
        const char *state, *line;
        double best;
    } cases[] = {
        {STATE("{\"position\":7,\"best\":1.5}"), "", 1.5},
        {STATE("{\"position\":7,\"best\":3}"), "", 3},
        {STATE("{\"position\":7,\"best\":\"inf\"}"), "", HUGE_VAL},
        {STATE("{\"position\":7,\"best\":\"-inf\"}"), "", -HUGE_VAL},
        {STATE("{\"position\":7.0,\"best\":3}"), integer, 0},
        {STATE("{\"position\":\"7\",\"best\":3}"), integer, 0},
        {STATE("{\"position\":7,\"best\":\"many\"}"), real, 0},
        {STATE("{\"position\":7,\"best\":\"+inf\"}"), real, 0},
        {STATE("{\"position\":7,\"best\":null}"), real, 0},
    };
    const th_checkpoint c = run(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_state(cases[i].state);
        lines[0] = 0;
        position = 0;
        best = 0;
        const th_status status = th_checkpoint_load(path, &c);
        ck_assert_str_eq(lines, cases[i].line);
        if (cases[i].line[0])
            expect_status(status, TH_ERROR_FILE, "1 of a different type");
        else
            no_error();
        ck_assert_double_eq(best, cases[i].best);
        ck_assert_int_eq(position, cases[i].line[0] ? 0 : 7);
    }
    ck_assert(th_requires_gradient(th_module_find_parameter(model, "weight")));
}
END_TEST

/* A state whose values take more than 256 MiB, in a file of a few MiB. */
START_TEST(a_state_of_too_many_values_is_rejected)
{
    enum { ARRAYS = 1500000 };
    char *text = malloc(3 * ARRAYS + 32), *at = text + sprintf(text, "{\"version\":[");
    for (int i = 0; i < ARRAYS; i++)
        at = stpcpy(at, "[],");
    strcpy(at, "1]}");
    write_state(text);
    free(text);
    const th_checkpoint c = run(NULL);
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "its values take more memory than allowed");
}
END_TEST

START_TEST(a_file_without_a_state_is_named)
{
    char words[400];
    const th_checkpoint c = run(NULL);
    write_state(NULL);
    snprintf(words, sizeof words, "checkpoint_load: %s: it is not a checkpoint: it has no \"tapehead.state\"", path);
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, words);
}
END_TEST

static const char *in_other_model(const char *name, void *user)
{
    static char renamed[64];
    (void)user;
    snprintf(renamed, sizeof renamed, "other.%s", name);
    return renamed;
}

/* A tensor of another shape is one difference, whatever its type is. */
START_TEST(another_shape_is_one_difference)
{
    th_tensor *weight = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(3, 3)), *bias = th_zeros(ctx, TH_INT64, TH_SHAPE(4));
    th_weights_options o = {.report = receive_line};
    for (int renamed = 0; renamed < 2; renamed++) {
        const th_named_tensor tensors[] = {{renamed ? "other.weight" : "weight", weight},
                                           {renamed ? "other.bias" : "bias", bias}};
        ck_assert_int_eq(th_safetensors_write(ctx, path, tensors, 2, NULL, 0), TH_OK);
        o.name_in_file = renamed ? in_other_model : NULL;
        expect_status(th_weights_load(model, path, &o), TH_ERROR_FILE, "(in all: 1 of a different shape)");
    }
    ck_assert_str_eq(lines,
                     "different shape: bias is (4) in the file and (3) in the model\n"
                     "different shape: bias (in the file \"other.bias\") is (4) in the file and (3) in the model\n");
}
END_TEST

/* -- what an error returns -- */

START_TEST(an_earlier_error_is_returned)
{
    const th_checkpoint c = run(NULL);
    save(NULL);
    th_reshape(th_module_find_parameter(model, "bias"), TH_SHAPE(2));
    ck_assert_int_eq(th_checkpoint_save(path, &c), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_checkpoint_load(path, &c), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_checkpoint_verify(ctx, path), TH_ERROR_SHAPE);
    ck_assert_ptr_null(th_checkpoint_configuration(ctx, path));
    ck_assert_int_eq(th_weights_save(model, path), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_weights_load(model, path, NULL), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_language_model_check_weights(ctx, &small, path), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "reshape");
    ck_assert_int_eq(th_checkpoint_load(path, &c), TH_OK);
}
END_TEST

START_TEST(shapes_only_and_freed_optimizers_are_rejected)
{
    th_optimizer *o = th_sgd_new(model, &(th_sgd_options){.learning_rate = 1});
    const th_checkpoint c = run(o);
    save(o);
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    const th_checkpoint shapes = {.model = th_dense_new(forecast, 3, 3, NULL)};
    ck_assert_int_eq(th_checkpoint_save(path, &shapes), TH_ERROR_STATE);
    th_error_clear(forecast);
    ck_assert_int_eq(th_checkpoint_load(path, &shapes), TH_ERROR_STATE);
    th_error_clear(forecast);
    ck_assert_int_eq(th_weights_load(shapes.model, path, NULL), TH_ERROR_STATE);
    th_context_free(forecast);
    th_optimizer_free(o);
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_STATE, "has been freed");
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_STATE, "has been freed");
}
END_TEST

/* -- what an error leaves -- */

/* Damages the header (_i: 0), or the first weight. No call keeps the file open. */
START_TEST(a_damaged_file_is_closed)
{
    model = th_language_model_new(ctx, &small);
    const th_checkpoint c = run(NULL);
    save(NULL);
    size_t count;
    char *bytes = read_bytes(path, &count), *digit = strstr(bytes + 8, "0x");
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    ck_assert_ptr_nonnull(digit);
    digit[_i ? 0 : 2] ^= (char)!_i;
    bytes[8 + header] ^= (char)(_i != 0);
    write_bytes(path, bytes, count);
    free(bytes);
    const int descriptor = next_descriptor();
    for (int turn = 0; turn < 2; turn++) {
        const size_t before = memory.bytes;
        expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "checkpoint_load: ");
        expect_status(th_checkpoint_verify(ctx, path), TH_ERROR_FILE, "checkpoint_verify: ");
        expect_status(th_weights_load(model, path, NULL), TH_ERROR_FILE, "weights_load: ");
        if (_i == 0) {
            expect_failure(th_checkpoint_configuration(ctx, path) == NULL, TH_ERROR_FILE, "checkpoint_configuration: ");
            expect_status(th_language_model_check_weights(ctx, &small, path), TH_ERROR_FILE,
                          "language_model_check_weights: ");
        } else {
            ck_assert_ptr_nonnull(th_checkpoint_configuration(ctx, path));
            ck_assert_int_eq(th_language_model_check_weights(ctx, &small, path), TH_OK);
        }
        ck_assert_int_eq(next_descriptor(), descriptor);
        ck_assert(_i || turn == 0 || memory.bytes == before);
    }
}
END_TEST

static bool save_weights(void)
{
    return th_weights_save(model, path) == TH_OK;
}

static bool load_weights(void)
{
    return th_weights_load(model, path, NULL) == TH_OK;
}

static bool check_weights(void)
{
    return th_language_model_check_weights(ctx, &small, path) == TH_OK;
}

static bool read_configuration(void)
{
    return th_checkpoint_configuration(ctx, path) != NULL;
}

static bool verify(void)
{
    return th_checkpoint_verify(ctx, path) == TH_OK;
}

/* Every allocation fails in turn. The error names the call, or safetensors_open, which it calls; nothing is left. */
START_TEST(memory_may_run_out_anywhere)
{
    static const struct {
        bool (*call)(void);
        const char *name;
        bool keeps; /* memory that the context releases */
    } cases[] = {{read_configuration, "checkpoint_configuration: ", true},
                 {verify, "checkpoint_verify: ", false},
                 {load_weights, "weights_load: ", false},
                 {check_weights, "language_model_check_weights: ", false},
                 {save_weights, "weights_save: ", false}};
    model = th_language_model_new(ctx, &small);
    save(NULL);
    const int descriptor = next_descriptor();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(cases[i].call());
        const size_t before = memory.bytes;
        bool done = false;
        int64_t named = 0;
        for (int64_t after = 1; !done; after++) {
            memory.fail_at = memory.calls + after;
            done = cases[i].call();
            memory.fail_at = 0;
            ck_assert(cases[i].keeps || memory.bytes == before);
            ck_assert_int_eq(next_descriptor(), descriptor);
            if (done)
                break;
            named += strstr(th_error_message(ctx), cases[i].name) != NULL;
            expect_error(TH_ERROR_MEMORY, strstr(th_error_message(ctx), cases[i].name) ? "" : "safetensors_open: ");
        }
        ck_assert(named > 0 || cases[i].call == verify); /* (that needs memory to open the file only) */
    }
}
END_TEST

/* The text of the state comes from malloc, and has more than 200 bytes. The C library counts memory that it keeps for
 * later calls as used, some thousand bytes more or less. */
START_TEST(saving_again_takes_no_more_memory)
{
    enum { FIRST = 30, MORE = 150 }; /* the first saves may take memory that the context keeps */
    size_t before = 0;
    for (int i = 0; i < FIRST + MORE; i++) {
        before = i == FIRST ? bytes_of_malloc() : before;
        save(NULL);
    }
    ck_assert_uint_le(bytes_of_malloc(), before + MORE * 200);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("checkpoint_errors", setup, teardown);
    tcase_add_test(tests, options_of_groups_are_compared);
    tcase_add_test(tests, numbers_have_the_types_that_are_asked_for);
    tcase_add_test(tests, a_state_of_too_many_values_is_rejected);
    tcase_add_test(tests, a_file_without_a_state_is_named);
    tcase_add_test(tests, another_shape_is_one_difference);
    tcase_add_test(tests, an_earlier_error_is_returned);
    tcase_add_test(tests, shapes_only_and_freed_optimizers_are_rejected);
    tcase_add_loop_test(tests, a_damaged_file_is_closed, 0, 2);
    tcase_add_test(tests, memory_may_run_out_anywhere);
    tcase_add_test(tests, saving_again_takes_no_more_memory);
    return run_suites();
}
