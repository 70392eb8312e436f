/* Checkpoints and files of weights. Every kind of damage is rejected before anything changes, and every difference
 * is named. A killed process or a full disk leaves the old file. No tensor is held twice. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "folder.h"
#include "kernels/machine/crc32c.h"
#include "memory.h"
#include "models/store/safetensors_write.h"
#include "nn/optimizer_saved.h"
#include "tapehead/models.h"
#include "tensor/tensor.h"

#include "context.h"

/* -- malloc, counted while `watching` -- */

static bool watching;
static size_t asked;
#if OWN_MALLOC
void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
    asked += watching ? bytes : 0;
    return __libc_malloc(bytes);
}
#endif

/* Returns whether this malloc is the one that is called. The sanitizers and valgrind have their own. */
static bool counts_malloc(void)
{
    asked = 0;
    watching = true;
    void *volatile byte = malloc(1);
    watching = false;
    free(byte);
    return asked > 0;
}

static test_memory memory;
static th_module *model;
static th_optimizer *adam;
static int64_t position;
static double best;
static char path[256], lines[4096];

static const th_checkpoint_number numbers[] = {{.name = "position", .integer = &position},
                                               {.name = "best", .real = &best}};

static void receive_line(const char *line, void *user)
{
    ck_assert_ptr_eq(user, lines);
    strcat(lines, line);
    strcat(lines, "\n");
}

static th_checkpoint run(void)
{
    return (th_checkpoint){.model = model,
                           .optimizer = adam,
                           .configuration = "{\"width\": 3}",
                           .numbers = numbers,
                           .n_numbers = 2,
                           .report = receive_line,
                           .report_user = lines};
}

/* Two layers with tied weights. */
static th_module *pair_new(int64_t width)
{
    th_module *m = th_module_new(ctx, sizeof *m, "pair", NULL);
    th_module *first = th_module_add(m, "first", th_dense_new(ctx, width, width, NULL));
    th_module *second = th_module_add(m, "second", th_module_new(ctx, sizeof *m, "second", NULL));
    th_module_tie_parameter(second, "weight", th_module_find_parameter(first, "weight"));
    th_module_add_parameter(second, "scale", TH_SHAPE(2));
    return m;
}

/* One step on the sum of all parameters' squares. */
static void step(void)
{
    th_tensor *loss = NULL;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        th_tensor *square = th_sum(th_mul(p.tensor, p.tensor), TH_ALL_AXES, NULL);
        loss = loss ? th_add(loss, square) : square;
    }
    ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK, "%s", th_error_message(ctx));
    th_tape_clear(ctx);
}

static void save(void)
{
    const th_checkpoint c = run();
    ck_assert_msg(th_checkpoint_save(path, &c) == TH_OK, "%s", th_error_message(ctx));
}

static th_status load(void)
{
    const th_checkpoint c = run();
    lines[0] = 0;
    return th_checkpoint_load(path, &c);
}

static void setup(void)
{
    make_folder();
    strcpy(path, in_folder("run.safetensors"));
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 1, .allocator = allocator_of(&memory)});
    model = pair_new(3);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    position = 42;
    best = 0.5;
    no_error();
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

/* -- contents -- */

START_TEST(a_checkpoint_has_everything)
{
    step();
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_BFLOAT16X3), TH_OK);
    save();
    const uint32_t crc = th_module_crc32c(model);
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_FLOAT32), TH_OK);
    step();
    position = 0;
    best = 0;
    ck_assert_int_eq(th_optimizer_set_learning_rate(adam, 0.7), TH_OK);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    th_set_seed(ctx, 6);
    ck_assert_uint_ne(th_module_crc32c(model), crc);
    ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    ck_assert_uint_eq(th_module_crc32c(model), crc);
    ck_assert_int_eq(position, 42);
    ck_assert_double_eq(best, 0.5);
    ck_assert_double_eq(th_optimizer_learning_rate(adam), 0.1);
    ck_assert_int_eq(th_step(ctx), 1);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16X3);
    ck_assert_int_eq(th_module_count_trainable(model), th_module_count(model));
    ck_assert_str_eq(th_checkpoint_configuration(ctx, path), "{\"width\": 3}");
    th_safetensors *file = th_safetensors_open(ctx, path);
    static const char *const names[] = {"first.weight",
                                        "first.bias",
                                        "second.scale",
                                        ".optimizer.exp_avg.first.weight",
                                        ".optimizer.exp_avg_sq.first.weight",
                                        ".optimizer.exp_avg.first.bias",
                                        ".optimizer.exp_avg_sq.first.bias",
                                        ".optimizer.exp_avg.second.scale",
                                        ".optimizer.exp_avg_sq.second.scale",
                                        ".checksums"};
    ck_assert_int_eq(th_safetensors_count(file), 10);
    for (int i = 0; i < 10; i++)
        ck_assert_str_eq(th_safetensors_at(file, i)->name, names[i]);
    ck_assert_str_eq(lines, "");
}
END_TEST

/* Numbers of all kinds are restored bit for bit, in any locale. */
START_TEST(numbers_are_restored_exactly)
{
    static const double reals[] = {0.1, -0.0, 1e-310, 1.7976931348623157e308, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0};
    static const int64_t integers[] = {0, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 7; i++) {
        best = reals[i];
        position = integers[i % 3];
        save();
        best = 1;
        position = 1;
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
        ck_assert(i == 6 ? best != best : memcmp(&best, &reals[i], sizeof best) == 0);
        ck_assert_int_eq(position, integers[i % 3]);
    }
    th_set_seed(ctx, UINT64_MAX);
    save();
    const double drawn = th_item(th_randn(ctx, TH_FLOAT32, TH_SHAPE(1)));
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_double_eq(th_item(th_randn(ctx, TH_FLOAT32, TH_SHAPE(1))), drawn);
}
END_TEST

/* -- damage -- */

static uint32_t state_of_all(void)
{
    return th_module_crc32c(model) ^ (uint32_t)position ^ (uint32_t)(best * 1000) ^ (uint32_t)th_step(ctx) << 8;
}

START_TEST(every_cut_and_every_flipped_bit_is_rejected)
{
    model = th_module_new(ctx, sizeof *model, "single", NULL);
    th_module_add_parameter(model, "weight", TH_SHAPE(3));
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1});
    step();
    save();
    step();
    size_t count;
    char *bytes = read_bytes(path, &count);
    position = 1;
    const uint32_t before = state_of_all();
    for (size_t cut = 0; cut < count; cut++) {
        write_bytes(path, bytes, cut);
        ck_assert_int_eq(load(), TH_ERROR_FILE);
        ck_assert_msg(strstr(th_error_message(ctx), path), "%s", th_error_message(ctx));
        th_error_clear(ctx);
    }
    write_bytes(path, bytes, count);
    const int file = open(path, O_WRONLY);
    for (size_t bit = 0; bit < 8 * count; bit++) {
        const char flipped = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        ck_assert_int_eq(pwrite(file, &flipped, 1, (off_t)(bit / 8)), 1);
        ck_assert_msg(load() == TH_ERROR_FILE, "bit %zu", bit);
        ck_assert_msg(strstr(th_error_message(ctx), path), "%s", th_error_message(ctx));
        th_error_clear(ctx);
        ck_assert_int_eq(pwrite(file, &bytes[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(file);
    ck_assert_uint_eq(state_of_all(), before);
    write_bytes(path, bytes, count);
    ck_assert_int_eq(load(), TH_OK);
    free(bytes);
}
END_TEST

/* Writes a checkpoint with correct checksums and an invalid state. */
static void write_state(const char *state)
{
    th_to_store tensors[3];
    int n = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p); n++) {
        tensors[n].name = n == 0 ? "first.weight" : n == 1 ? "first.bias" : "second.scale";
        tensors[n].array = th_tensor_array(th_tensor_impl_of(p.tensor));
    }
    const th_named_text text = {"tapehead.state", state};
    ck_assert_int_eq(th_store(&(th_storing){ctx, "test", path, tensors, 3, &text, state != NULL, ".checksums"}), TH_OK);
}

START_TEST(an_invalid_state_is_rejected)
{
#define RANDOM "\"random\":{\"seed\":\"0x1\",\"step\":1,\"calls\":[0],\"calls_at_clear\":0}"
    static const char *const cases[][2] = {
        {NULL, "it has no \"tapehead.state\""},
        {"{", "its tapehead.state: byte 1: the text ends"},
        {"[]", "\"version\" is missing"},
        {"{\"version\":2}", "\"version\" is 2, outside 1 to 1"},
        {"{\"version\":1.0}", "\"version\" has another type; it should be an integer"},
        {"{\"version\":1}", "\"step\" is missing"},
        {"{\"version\":1,\"precision\":\"float16\"}", "unknown precision \"float16\""},
        {"{\"version\":1,\"precision\":2}", "\"precision\" has another type; it should be a string"},
        {"{\"version\":1,\"random\":{\"seed\":\"0x1\",\"step\":-1,\"calls\":[],\"calls_at_clear\":0}}", "outside 0"},
        {"{\"version\":1,\"random\":{\"seed\":\"1\",\"step\":1,\"calls\":[],\"calls_at_clear\":0}}",
         "\"seed\" is \"1\"; it must be 0x and 1 to 16"},
        {"{\"version\":1,\"random\":{\"seed\":\"0xg\",\"step\":1,\"calls\":[],\"calls_at_clear\":0}}",
         "\"seed\" is \"0xg\""},
        {"{\"version\":1,\"random\":{\"seed\":\"0x1\",\"step\":1,\"calls\":[-1],\"calls_at_clear\":0}}",
         "\"calls\"[0] is -1; it must be an integer, 0 to 4294967295"},
        {"{\"version\":1,\"random\":{\"seed\":\"0x1\",\"step\":1,\"calls\":[0,0,0,0,0,0,0,0,0],\"calls_at_clear\":0}}",
         "\"calls\" must be a list of at most"},
        {"{\"version\":1," RANDOM "}", "\"rule\" is missing"},
        {"{\"version\":1," RANDOM ",\"optimizer\":{\"rule\":\"adam_w\",\"learning_rate\":-1}}",
         "\"learning_rate\" is -1; it must be 0 or more"},
        {"{\"version\":1," RANDOM ",\"optimizer\":{\"rule\":\"adam_w\",\"learning_rate\":1,\"options\":null}}",
         "the optimizer needs \"options\", an object"},
        {"{\"version\":1," RANDOM ",\"optimizer\":null,\"parameters\":{\"first.weight\":{\"steps\":1e3}}}",
         "\"steps\" has another type"},
        {"{\"version\":1," RANDOM ",\"optimizer\":null}",
         "different optimizer: none in the file, adam_w here; missing: the number \"position\"; missing: the number "
         "\"best\" (in all: 2 missing, 1 different options)"},
        {"{\"version\":1," RANDOM
         ",\"optimizer\":{\"rule\":\"adam_w\",\"learning_rate\":1,\"options\":{},\"groups\":[]},"
         "\"parameters\":{\"first.weight\":{\"steps\":3,\"group\":0,\"frozen\":false}}}",
         "missing: max_norm of the optimizer; missing: beta1 of the optimizer; "},
        {"{\"version\":1," RANDOM
         ",\"optimizer\":{\"rule\":\"adam_w\",\"learning_rate\":1,\"options\":{\"max_norm\":[0]},\"groups\":[]}}",
         "different type: max_norm of the optimizer is not a number in the file; missing: beta1 of the optimizer; "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_state(cases[i][0]);
        expect_status(load(), TH_ERROR_FILE, cases[i][1]);
    }
    ck_assert_int_eq(th_weights_save(model, path), TH_OK);
    expect_status(load(), TH_ERROR_FILE, "it is not a checkpoint: its last tensor is not \".checksums\"");
}
END_TEST

/* Replaces a part of the file's state by another of the same length, and corrects the checksum. */
static void change_state(const char *from, const char *to)
{
    size_t count;
    char *bytes = read_bytes(path, &count);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    char *at = strstr(bytes + 8, from);
    ck_assert_ptr_nonnull(at);
    ck_assert_uint_eq(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    const uint32_t sum = th_crc32c(0, bytes, 8 + (size_t)header);
    memcpy(bytes + count - sizeof sum, &sum, sizeof sum);
    write_bytes(path, bytes, count);
    free(bytes);
}

/* Files that are older than the choice do not say which precision products had. */
/* An infinite moment, which earlier versions saved after a huge gradient, becomes the largest that a step can
 * produce. */
START_TEST(infinite_moments_are_limited)
{
    step();
    for (int i = 0; i < 2; i++) {
        const th_array moment = th_optimizer_moment(adam, 0, i);
        ((float *)moment.data)[1] = INFINITY;
    }
    save();
    ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    for (int again = 0; again < 3; again++)
        step();
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        for (int64_t i = 0; i < th_numel(p.tensor); i++)
            ck_assert(isfinite(((const float *)th_data(p.tensor))[i]));
    no_error();
}
END_TEST

START_TEST(the_default_precision_is_float32)
{
    step();
    save();
    change_state("\\\"precision\\\":\\\"float32\\\",", "                          ");
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_BFLOAT16), TH_OK);
    ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
}
END_TEST

/* Without an error, moments that the state does not mention would be lost silently. */
START_TEST(moments_without_steps_are_unexpected)
{
    step();
    save();
    change_state("\\\"steps\\\":1", "\\\"steps\\\":0");
    expect_status(load(), TH_ERROR_FILE,
                  "unexpected: exp_avg of first.weight, which has taken no step in the file; unexpected: exp_avg_sq of "
                  "first.weight, which has taken no step in the file (in all: 2 unexpected)");
}
END_TEST

/* A moment must have the type and the shape of its parameter, also if it takes as many bytes. _i: the moment. */
START_TEST(moments_of_another_type_or_shape_are_rejected)
{
    static const char *const names[] = {"exp_avg", "exp_avg_sq"}, *const types[] = {"I32", "U32"};
    char from[128], to[128], words[160];
    step();
    const uint32_t before = th_module_crc32c(model);
    for (int i = 0; i < 2; i++) {
        save();
        snprintf(from, sizeof from, ".optimizer.%s.first.weight\":{\"dtype\":\"F32\"", names[_i]);
        snprintf(to, sizeof to, ".optimizer.%s.first.weight\":{\"dtype\":\"%s\"", names[_i], types[i]);
        change_state(from, to);
        snprintf(words, sizeof words, "different shape: %s of first.weight does not match the parameter", names[_i]);
        expect_status(load(), TH_ERROR_FILE, words);
    }
    static const char *const shapes[] = {"[1,9]", "[9,1]"}; /* not [3,3] */
    for (int i = 0; i < 2; i++) {
        save();
        snprintf(from, sizeof from, ".optimizer.%s.first.weight\":{\"dtype\":\"F32\",\"shape\":[3,3]", names[_i]);
        snprintf(to, sizeof to, ".optimizer.%s.first.weight\":{\"dtype\":\"F32\",\"shape\":%s", names[_i], shapes[i]);
        change_state(from, to);
        expect_status(load(), TH_ERROR_FILE, words);
    }
    ck_assert_uint_eq(th_module_crc32c(model), before);
    save();
    ck_assert_int_eq(load(), TH_OK);
}
END_TEST

/* A quarter of a TiB of zeros, which takes minutes to read, with a valid header. */
START_TEST(tensors_that_do_not_fit_are_not_read)
{
    static const char described[] =
        "{\"__metadata__\":{\"tapehead.state\":\"{\\\"version\\\":1,\\\"random\\\":{\\\"seed\\\":\\\"0x1\\\","
        "\\\"step\\\":1,"
        "\\\"calls\\\":[],\\\"calls_at_clear\\\":0},\\\"optimizer\\\":null}\"},"
        "\"first.weight\":{\"dtype\":\"F32\",\"shape\":[68719476736],\"data_offsets\":[0,274877906944]},"
        "\".checksums\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[274877906944,274877906952]}}       ";
    const uint64_t length = (sizeof described - 1) / 8 * 8;
    char header[sizeof described + 8];
    memcpy(header, &length, 8);
    memcpy(header + 8, described, sizeof described);
    const uint32_t sums[2] = {0, th_crc32c(0, header, 8 + (size_t)length)};
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(pwrite(file, header, 8 + (size_t)length, 0), (ssize_t)(8 + length));
    ck_assert_int_eq(pwrite(file, sums, sizeof sums, (off_t)(8 + length + 274877906944)), sizeof sums);
    close(file);
    expect_status(load(), TH_ERROR_FILE,
                  "different shape: first.weight is (68719476736) in the file and (3, 3) in the");
    expect_status(th_weights_load(model, path, NULL), TH_ERROR_FILE, "missing: first.bias (3)");
}
END_TEST

/* -- differences -- */

START_TEST(every_difference_is_named)
{
    step();
    save();
    th_module *other = pair_new(4);
    th_module_add_parameter(other, "more", TH_SHAPE(7));
    th_optimizer *sgd = th_sgd_new(other, &(th_sgd_options){.learning_rate = 1});
    th_checkpoint c = run();
    const double was = best;
    const th_checkpoint_number asked_for[] = {{.name = "epoch", .integer = &position},
                                              {.name = "best", .integer = &position}};
    c.model = other;
    c.optimizer = sgd;
    c.numbers = asked_for;
    lines[0] = 0;
    expect_status(
        th_checkpoint_load(path, &c), TH_ERROR_FILE,
        "model (in all: 2 missing, 2 of a different shape, 1 of a different type, 1 different options); at test_");
    ck_assert_str_eq(
        lines,
        "different optimizer: adam_w in the file, sgd here\nmissing: the number \"epoch\"\ndifferent type: the number "
        "\"best\" is not of type integer in the file\nmissing: more (7)\ndifferent shape: first.weight is (3, 3) in "
        "the file and (4, 4) in the model\ndifferent shape: first.bias is (3) in the file and (4) in the model\n");
    ck_assert_double_eq(best, was);
    th_module_free(th_module_find(model, "second"));
    expect_status(load(), TH_ERROR_FILE, "unexpected: second.scale (2) (in all: 1 unexpected)");
}
END_TEST

START_TEST(changed_options_are_an_error_unless_allowed)
{
    step();
    save();
    th_optimizer_free(adam);
    const th_parameter_group rate = {.pattern = "first.*", .no_weight_decay = true};
    adam =
        th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.3, .beta2 = 0.99, .groups = &rate, .n_groups = 1});
    expect_status(load(), TH_ERROR_FILE, "beta2 of the optimizer is 0.999");
    ck_assert_int_eq(count(lines, "different option: "), 3);
    ck_assert_int_eq(count(lines, "has 1 groups in the file and 2 here"), 1);
    ck_assert_int_eq(count(lines, "second.scale is in group 0 of the optimizer in the file and 1 here"), 1);
    th_checkpoint c = run();
    c.other_options = true;
    ck_assert_int_eq(th_checkpoint_load(path, &c), TH_OK);
    ck_assert_double_eq(th_optimizer_learning_rate(adam), 0.1);
    th_optimizer_free(adam);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.3, .amsgrad = true});
    c.optimizer = adam;
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "adam_w in the file, adam_w amsgrad here");
    c.optimizer = NULL;
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "adam_w in the file, none here");
    th_module *dense = th_module_find(model, "first");
    c.optimizer = th_adam_w_new(dense, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    c.other_options = false;
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE,
                  "second.scale is one of the optimizer's parameters in the file, but here it is not");
}
END_TEST

START_TEST(wrong_calls_are_rejected)
{
    th_checkpoint c = run();
    expect_status(th_checkpoint_save(NULL, &c), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_checkpoint_load(NULL, &c), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_checkpoint_save(path, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_status(th_weights_load(NULL, path, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_failure(th_checkpoint_configuration(ctx, NULL) == NULL, TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(load(), TH_ERROR_FILE, "No such file");
    const th_checkpoint_number twice[] = {{.name = "a", .real = &best}, {.name = "a", .real = &best}},
                               both = {"a", &position, &best}, neither = {.name = "a"};
    c.numbers = twice;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "number 1 needs a unique name");
    c.n_numbers = 1;
    c.numbers = &both;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "number 0 needs");
    c.numbers = &neither;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "number 0 needs");
    c.numbers = NULL;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "there are 1 numbers, but their list is NULL");
    c.n_numbers = 0;
    c.configuration = "\xff";
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "is NULL, not UTF-8");
    c.configuration = NULL;
    c.model = th_module_find(model, "second");
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT,
                  "1 of the 3 parameters of the optimizer (adam_w) do not belong");
    c.model = model;
    th_tensor *scale = th_module_find_parameter(model, "second.scale");
    ck_assert_int_eq(th_backward(th_sum(scale, TH_ALL_AXES, NULL), NULL), TH_OK);
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_STATE,
                  "second.scale has a gradient that no step has used yet");
    ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
    th_tape_clear(ctx);
    ck_assert_int_eq(count_files(), 0);
    ck_assert_int_eq(th_checkpoint_save(path, &c), TH_OK);
    ck_assert_str_eq(th_checkpoint_configuration(ctx, path), "");
}
END_TEST

/* -- weights -- */

static const char *renamed(const char *parameter, void *user)
{
    static char name[64];
    snprintf(name, sizeof name, "%s%s", (const char *)user, parameter);
    return strcmp(parameter, "first.bias") == 0 ? NULL : name;
}

START_TEST(weights_are_copied_between_models)
{
    step();
    save();
    const uint32_t crc = th_module_crc32c(model);
    char weights[256];
    strcpy(weights, in_folder("weights.safetensors"));
    ck_assert_int_eq(th_weights_save(model, weights), TH_OK);
    for (int from_checkpoint = 0; from_checkpoint < 2; from_checkpoint++) {
        th_module *fresh = pair_new(3);
        ck_assert_uint_ne(th_module_crc32c(fresh), crc);
        ck_assert_msg(th_weights_load(fresh, from_checkpoint ? path : weights, NULL) == TH_OK, "%s",
                      th_error_message(ctx));
        ck_assert_uint_eq(th_module_crc32c(fresh), crc);
    }
    th_module *wide = pair_new(3);
    ck_assert_int_eq(th_module_cast(wide, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_weights_load(wide, weights, NULL), TH_OK);
    ck_assert_double_eq(th_get(th_module_find_parameter(wide, "first.weight"), TH_INDEX(1, 2)),
                        th_get(th_module_find_parameter(model, "first.weight"), TH_INDEX(1, 2)));
    ck_assert_int_eq(th_module_cast(wide, TH_FLOAT32), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(wide), crc);
}
END_TEST

static void flip_byte(size_t from_the_end)
{
    size_t count;
    char *bytes = read_bytes(path, &count);
    bytes[count - from_the_end] ^= 1;
    write_bytes(path, bytes, count);
    free(bytes);
}

/* Weights are loaded from a checkpoint whose moments are damaged. Loading the whole checkpoint is an error. */
START_TEST(only_damage_in_the_part_that_is_read_is_an_error)
{
    step();
    save();
    ck_assert_int_eq(th_checkpoint_verify(ctx, path), TH_OK);
    const uint32_t crc = th_module_crc32c(model);
    th_module *fresh = pair_new(3);
    flip_byte(100); /* in a moment */
    ck_assert_msg(th_weights_load(fresh, path, NULL) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_uint_eq(th_module_crc32c(fresh), crc);
    expect_status(load(), TH_ERROR_FILE, "the checksum of tensor \".optimizer.");
    expect_status(th_checkpoint_verify(ctx, path), TH_ERROR_FILE, "the checksum of tensor \".optimizer.");
    flip_byte(100);
    flip_byte(10 * 4 + 2 * 56 + 20); /* in a weight: before it are 10 checksums, and two moments of 56 bytes */
    expect_status(th_weights_load(fresh, path, NULL), TH_ERROR_FILE, "the checksum of tensor \"");
    ck_assert_ptr_null(strstr(th_error_message(ctx), ".optimizer"));
    expect_status(th_checkpoint_verify(ctx, in_folder("nothing")), TH_ERROR_FILE, "No such file");
    ck_assert_int_eq(th_weights_save(model, path), TH_OK);
    expect_status(th_checkpoint_verify(ctx, path), TH_ERROR_FILE, "it is not a checkpoint");
    expect_status(th_checkpoint_verify(ctx, NULL), TH_ERROR_ARGUMENT, "NULL");
}
END_TEST

START_TEST(weights_can_be_renamed_skipped_or_missing)
{
    th_tensor *weight = th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, 3)), *scale = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2));
    const th_named_tensor tensors[] = {{"model.first.weight", weight}, {"model.second.scale", scale}, {"head", scale}};
    ck_assert_int_eq(th_safetensors_write(ctx, path, tensors, 3, NULL, 0), TH_OK);
    th_weights_options options = {
        .name_in_file = renamed, .user = "model.", .report = receive_line, .report_user = lines};
    const double bias = th_get(th_module_find_parameter(model, "first.bias"), TH_INDEX(0));
    lines[0] = 0;
    expect_status(th_weights_load(model, path, &options), TH_ERROR_FILE, "unexpected: head (2) (in all: 1 unexpected)");
    ck_assert_str_eq(lines, "unexpected: head (2)\n");
    FILE *output = tmpfile();
    th_weights_options printing = options;
    printing.report = th_report_print;
    printing.report_user = output;
    expect_status(th_weights_load(model, path, &printing), TH_ERROR_FILE, "unexpected");
    rewind(output);
    char line[64] = "";
    ck_assert_str_eq(fgets(line, sizeof line, output), "unexpected: head (2)\n");
    ck_assert_ptr_null(fgets(line, sizeof line, output));
    fclose(output);
    options.allow_unexpected = true;
    ck_assert_int_eq(th_weights_load(model, path, &options), TH_OK);
    ck_assert_double_eq(th_get(th_module_find_parameter(model, "first.bias"), TH_INDEX(0)), bias);
    ck_assert_double_eq(th_get(th_module_find_parameter(model, "first.weight"), TH_INDEX(2, 1)),
                        (float)th_get(weight, TH_INDEX(2, 1)));
    options.name_in_file = NULL;
    expect_status(
        th_weights_load(model, path, &options), TH_ERROR_FILE,
        "missing: first.weight (3, 3); missing: first.bias (3); missing: second.scale (2) (in all: 3 missing)");
    options.allow_missing = true;
    ck_assert_int_eq(th_weights_load(model, path, &options), TH_OK);
    const th_named_tensor integers = {"second.scale", th_zeros(ctx, TH_INT64, TH_SHAPE(2))};
    ck_assert_int_eq(th_safetensors_write(ctx, path, &integers, 1, NULL, 0), TH_OK);
    expect_status(th_weights_load(model, path, &options), TH_ERROR_FILE,
                  "different type: second.scale is I64 in the file");
}
END_TEST

/* A tied parameter may also be saved under its second name, as some programs do. */
START_TEST(tied_weights_may_be_stored_twice)
{
    const th_named_tensor tensors[] = {{"first.weight", th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 3))},
                                       {"second.weight", th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 3))},
                                       {"first.bias", th_ones(ctx, TH_FLOAT32, TH_SHAPE(3))},
                                       {"second.scale", th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))}};
    ck_assert_int_eq(th_safetensors_write(ctx, path, tensors, 4, NULL, 0), TH_OK);
    ck_assert_msg(th_weights_load(model, path, NULL) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_double_eq(th_get(th_module_find_parameter(model, "second.weight"), TH_INDEX(0, 0)), 1);
}
END_TEST

/* -- crashes, full disks, readers -- */

/* Saves one version after another, each with its number in the weights, until the process is killed; *saved counts
 * them. */
static void save_until_killed(_Atomic int64_t *saved)
{
    for (int64_t version = 1;; version++) {
        position = version;
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            ck_assert_int_eq(th_fill(p.tensor, (double)version), TH_OK);
        save();
        *saved = version;
    }
}

static pid_t start_saving(_Atomic int64_t *saved)
{
    *saved = 0;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        save_until_killed(saved);
    return child;
}

static void sleep_for(uint64_t microseconds)
{
    nanosleep(&(struct timespec){0, 1000 * (long)microseconds}, NULL);
}

static void kill_and_wait(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(a_killed_process_leaves_a_complete_file)
{
    _Atomic int64_t *saved = mmap(NULL, sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t state = 12345;
    model = pair_new(100); /* large enough to be killed in the middle of saving */
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    for (int i = 0; i < 25; i++) {
        const pid_t child = start_saving(saved);
        while (*saved < 1)
            sleep_for(100);
        state = state * 6364136223846793005u + 1442695040888963407u;
        sleep_for((state >> 33) % 8000);
        kill_and_wait(child);
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
        ck_assert_int_ge(position, *saved); /* the last version that was reported as saved, or the next */
        ck_assert_int_le(position, *saved + 1);
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            ck_assert_double_eq(th_get(th_reshape(p.tensor, TH_SHAPE(-1)), TH_INDEX(-1)), (double)position);
        th_tape_clear(ctx);
        ck_assert_int_le(count_files(), 2); /* the next writer removes a leftover */
    }
    munmap(saved, sizeof *saved);
}
END_TEST

START_TEST(a_full_disk_leaves_the_old_file)
{
    step();
    save();
    position = 43;
    struct stat saved;
    ck_assert_int_eq(stat(path, &saved), 0);
    const pid_t child = fork();
    int status = 1;
    ck_assert_int_ge(child, 0);
    if (child == 0) { /* a limit on the file's size acts like a full disk */
        signal(SIGXFSZ, SIG_IGN);
        for (rlim_t max = 0; max < (rlim_t)saved.st_size; max += 100) {
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){max, RLIM_INFINITY});
            const th_checkpoint c = run();
            const bool refused = th_checkpoint_save(path, &c) == TH_ERROR_FILE;
            if (!refused || strstr(th_error_message(ctx), "run.safetensors: File too large") == NULL)
                _exit(2);
            th_error_clear(ctx);
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(count_files(), 1);
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_int_eq(position, 42);
    th_checkpoint c = run();
    expect_status(th_checkpoint_save("/dev/full", &c), TH_ERROR_FILE, "/dev/full: No space left on device");
    expect_status(th_checkpoint_save(folder, &c), TH_ERROR_FILE, folder);
}
END_TEST

/* Links are followed, modes are kept, and two processes can save at the same time. */
START_TEST(a_link_is_followed_and_the_mode_is_kept)
{
    char link[256];
    strcpy(link, in_folder("link"));
    save();
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(symlink("run.safetensors", link), 0);
    th_checkpoint c = run();
    position = 44;
    ck_assert_int_eq(th_checkpoint_save(link, &c), TH_OK);
    struct stat status;
    ck_assert_int_eq(lstat(link, &status), 0);
    ck_assert(S_ISLNK(status.st_mode));
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0640);
    position = 0;
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_int_eq(position, 44);
    _Atomic int64_t *saved = mmap(NULL, 2 * sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t first = start_saving(&saved[0]), second = start_saving(&saved[1]);
    for (int loads = 0; loads < 50 || saved[0] < 3 || saved[1] < 3; loads++) /* one complete version, either one */
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    kill_and_wait(first);
    kill_and_wait(second);
    munmap(saved, 2 * sizeof *saved);
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_int_le(count_files(), 4);
}
END_TEST

/* -- memory -- */

START_TEST(saving_and_loading_hold_no_tensor_twice)
{
    model = pair_new(600);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    step();
    const size_t bytes = (size_t)th_module_count(model) * sizeof(float), live = th_memory(ctx).live;
    const bool counted = counts_malloc();
    th_memory_reset_peak(ctx);
    asked = 0;
    watching = true;
    save();
    const th_status status = load();
    watching = false;
    ck_assert_int_eq(status, TH_OK);
    ck_assert_uint_lt(th_memory(ctx).peak, live + bytes / 20);
    ck_assert_uint_lt(asked, bytes / 10);
    ck_assert(asked > 0 || !counted);
    ck_assert_uint_eq(th_memory(ctx).live, live);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    step();
    save();
    step();
    const uint32_t before = state_of_all();
    for (int64_t after = 1, done = 0; !done; after++) {
        memory.fail_at = memory.calls + after;
        const th_status status = load();
        memory.fail_at = 0;
        if ((done = status == TH_OK) == 0) {
            expect_error(TH_ERROR_MEMORY, "out of memory");
            ck_assert_uint_eq(state_of_all(), before);
        }
    }
    const th_checkpoint c = run();
    for (int64_t after = 1, done = 0; !done; after++) {
        memory.fail_at = memory.calls + after;
        const th_status status = th_checkpoint_save(path, &c);
        memory.fail_at = 0;
        if ((done = status == TH_OK) == 0)
            expect_error(TH_ERROR_MEMORY, "out of memory");
    }
}
END_TEST

/* A few bytes of options can describe a model of many gigabytes. It is compared with the file before it takes
 * memory. */
START_TEST(a_language_model_is_compared_before_it_takes_memory)
{
    const th_language_model_options small = {.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 1};
    th_module *lm = th_language_model_new(ctx, &small);
    const th_checkpoint c = {.model = lm};
    ck_assert_int_eq(th_checkpoint_save(path, &c), TH_OK);
    const size_t before = memory.bytes;
    ck_assert_int_eq(th_language_model_check_weights(ctx, &small, path), TH_OK);
    const struct {
        th_language_model_options options;
        const char *sentence;
    } cases[] = {
        {{.vocabulary = 1 << 30, .length = 4, .width = 4, .heads = 2, .layers = 1}, "embedding.weight is (8, 4)"},
        {{.vocabulary = 8, .length = 4, .width = 1 << 20, .heads = 2, .layers = 1}, "in the model"},
        {{.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 2}, "missing: layers.1."},
        {{.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 65536},
         "too few for a model of 65536 layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_status(th_language_model_check_weights(ctx, &cases[i].options, path), TH_ERROR_FILE, cases[i].sentence);
    ck_assert_uint_le(memory.bytes, before + 4096);
    expect_status(th_language_model_check_weights(ctx, &small, in_folder("nothing")), TH_ERROR_FILE, "No such file");
    expect_status(th_language_model_check_weights(ctx, &small, NULL), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_language_model_check_weights(ctx, NULL, path), TH_ERROR_ARGUMENT, "the options are NULL");
    ck_assert_int_eq(th_weights_load(lm, path, NULL), TH_OK);
}
END_TEST

START_TEST(a_shapes_only_context_cannot_be_saved)
{
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *dense = th_dense_new(forecast, 2, 2, NULL);
    ck_assert_int_eq(th_weights_save(dense, path), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(forecast), "shapes-only context has no values"));
    th_context_free(forecast);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("checkpoints", setup, teardown);
    tcase_add_test(tests, a_checkpoint_has_everything);
    tcase_add_test(tests, numbers_are_restored_exactly);
    tcase_add_test(tests, every_cut_and_every_flipped_bit_is_rejected);
    tcase_add_test(tests, an_invalid_state_is_rejected);
    tcase_add_test(tests, infinite_moments_are_limited);
    tcase_add_test(tests, the_default_precision_is_float32);
    tcase_add_test(tests, moments_without_steps_are_unexpected);
    tcase_add_loop_test(tests, moments_of_another_type_or_shape_are_rejected, 0, 2);
    tcase_add_test(tests, tensors_that_do_not_fit_are_not_read);
    tcase_add_test(tests, every_difference_is_named);
    tcase_add_test(tests, changed_options_are_an_error_unless_allowed);
    tcase_add_test(tests, wrong_calls_are_rejected);
    tcase_add_test(tests, weights_are_copied_between_models);
    tcase_add_test(tests, only_damage_in_the_part_that_is_read_is_an_error);
    tcase_add_test(tests, weights_can_be_renamed_skipped_or_missing);
    tcase_add_test(tests, tied_weights_may_be_stored_twice);
    tcase_add_test(tests, a_killed_process_leaves_a_complete_file);
    tcase_add_test(tests, a_full_disk_leaves_the_old_file);
    tcase_add_test(tests, a_link_is_followed_and_the_mode_is_kept);
    tcase_add_test(tests, saving_and_loading_hold_no_tensor_twice);
    tcase_add_test(tests, every_allocation_may_fail);
    tcase_add_test(tests, a_language_model_is_compared_before_it_takes_memory);
    tcase_add_test(tests, a_shapes_only_context_cannot_be_saved);
    return run_suites();
}
