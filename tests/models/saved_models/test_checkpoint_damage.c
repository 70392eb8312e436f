/* Damaged and invalid checkpoints are rejected before anything changes. */
#include "models/core/files.h"
#include "models/core/training.h"
#include "models/saved_models/safetensors_write.h"
#include "tapehead/models.h"
#include "tensor/tensor.h"

#include "checkpoint_pair.h"

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
    th_safetensors_item tensors[3];
    int n = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p); n++) {
        tensors[n].name = n == 0 ? "first.weight" : n == 1 ? "first.bias" : "second.scale";
        tensors[n].array = th_tensor_array(th_tensor_impl_of(p.tensor));
    }
    const th_named_text text = {"tapehead.state", state};
    ck_assert_int_eq(th_safetensors_write_contents(
                         &(th_safetensors_contents){ctx, "test", path, tensors, 3, &text, state != NULL, ".checksums"}),
                     TH_OK);
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
        {"{\"version\":1," RANDOM ",\"optimizer\":null,\"average\":[]}", "\"decay\" is missing"},
        {"{\"version\":1," RANDOM ",\"optimizer\":null,\"average\":{\"decay\":1,\"warm_up\":false}}",
         "\"decay\" is 1; it must be at least 0 and less than 1"},
        {"{\"version\":1," RANDOM ",\"optimizer\":null,\"parameters\":{\"first.weight\":{\"steps\":1,\"group\":0,"
         "\"frozen\":false,\"averaged\":-1}}}",
         "\"averaged\" is -1, outside 0"},
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
        const th_array moment = th_saved_tensor(adam, 0, i);
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

START_TEST(an_index_is_not_a_checkpoint)
{
    static const char index[] = "{\"weight_map\":{}}";
    const char *file = in_folder("model.safetensors.index.json");
    write_bytes(file, index, strlen(index));
    expect_status(th_checkpoint_verify(ctx, file), TH_ERROR_FILE,
                  "checkpoint_verify: a checkpoint is one file, but the index names 0 files");
}
END_TEST

/* _i: another type, another number of checksums, another number of axes. */
START_TEST(checksums_of_another_type_or_shape_are_rejected)
{
    static const char *const described[] = {"\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                                            "\"U32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                                            "\"U32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}"},
                             *const found[] = {"F32 (1)", "U32 (2)", "U32 (1, 1)"};
    char bytes[128] = {0}, words[128];
    const uint64_t header =
        (uint64_t)snprintf(bytes + 8, sizeof bytes - 8, "{\".checksums\":{\"dtype\":%s", described[_i]);
    memcpy(bytes, &header, sizeof header);
    write_bytes(path, bytes, 8 + (size_t)header + (_i == 1 ? 8 : 4));
    snprintf(words, sizeof words, "it is not a checkpoint: \".checksums\" is %s; it must be U32 (1)", found[_i]);
    expect_status(load(), TH_ERROR_FILE, words);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("damaged checkpoints", setup, teardown);
    tcase_add_test(tests, every_cut_and_every_flipped_bit_is_rejected);
    tcase_add_test(tests, an_invalid_state_is_rejected);
    tcase_add_test(tests, infinite_moments_are_limited);
    tcase_add_test(tests, the_default_precision_is_float32);
    tcase_add_test(tests, moments_without_steps_are_unexpected);
    tcase_add_loop_test(tests, moments_of_another_type_or_shape_are_rejected, 0, 2);
    tcase_add_test(tests, tensors_that_do_not_fit_are_not_read);
    tcase_add_test(tests, an_index_is_not_a_checkpoint);
    tcase_add_loop_test(tests, checksums_of_another_type_or_shape_are_rejected, 0, 3);
    return run_suites();
}
