/* Calls that read or write models, adapters and checkpoints, with and without errors, leave nothing allocated and no
 * scope open, and recording as it was. */
#include <stdlib.h>

#include "tapehead/models.h"

#include "counted_malloc.h"
#include "written_models.h"

#define FIXTURE FIXTURES "/hugging_face/"

static th_module *model;

static void delete_folder(const char *name)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", in_folder(name));
    ck_assert_int_eq(system(command), 0);
}

static void load(const char *path)
{
    th_module *read = th_language_model_from_pretrained(ctx, path);
    if (read)
        th_module_free(read);
}

static void export_as(const char *family, int64_t shard_bytes)
{
    (void)!th_language_model_export(
        model, in_folder("model"), &(th_export_options){.family = family, .shard_bytes = shard_bytes, TH_END_TOKEN(2)});
}

static void damage(const char *file, const char *text)
{
    write_bytes(in_folder(file), text, strlen(text));
}

/* -- the calls -- */

static void load_one_file(void)
{
    load(FIXTURE "llama");
}

static void load_several_files(void)
{
    load(FIXTURE "llama_shards");
}

static void load_transposed(void)
{
    load(FIXTURE "gpt2");
}

static void load_nothing(void)
{
    load(in_folder("none"));
}

static void load_without_weights(void)
{
    export_as(NULL, 0);
    ck_assert_int_eq(unlink(in_folder("model/model.safetensors")), 0);
    load(in_folder("model"));
}

static void load_without_a_shard(void)
{
    export_as(NULL, 30000);
    char command[300];
    snprintf(command, sizeof command, "rm %s/model-00002-of-*", in_folder("model"));
    ck_assert_int_eq(system(command), 0);
    load(in_folder("model"));
}

static void load_a_damaged_configuration(void)
{
    export_as(NULL, 0);
    damage("model/config.json", "{\"model_type\": \"llama\", \"vocab_size\": -1}");
    load(in_folder("model"));
}

static void load_a_damaged_file(void)
{
    export_as(NULL, 0);
    damage("model/model.safetensors", "\x20\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2]");
    load(in_folder("model"));
}

static void read_end_tokens(void)
{
    int64_t token[4];
    int count;
    ck_assert_int_eq(th_pretrained_end_token(ctx, FIXTURE "gpt2", token), TH_OK);
    ck_assert_int_eq(th_pretrained_end_tokens(ctx, FIXTURE "llama", token, 4, &count), TH_OK);
}

static void read_too_many_end_tokens(void)
{
    int count;
    (void)!th_pretrained_end_tokens(ctx, FIXTURE "llama", NULL, 0, &count);
}

static void export_one_file(void)
{
    export_as(NULL, 0);
}

static void export_several_files(void)
{
    export_as("llama", 60000);
}

static void export_an_unknown_family(void)
{
    export_as("typo", 0);
}

static void export_another_family(void)
{
    export_as("gpt2", 0);
}

static void save_and_load_adapters(void)
{
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2}), TH_OK);
    ck_assert_int_eq(th_lora_save(model, in_folder("adapter"), NULL), TH_OK);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    ck_assert_int_eq(th_lora_load(model, in_folder("adapter")), TH_OK);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
}

static void load_adapters_twice(void)
{
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2}), TH_OK);
    ck_assert_int_eq(th_lora_save(model, in_folder("adapter"), NULL), TH_OK);
    ck_assert_int_eq(th_lora_load(model, in_folder("adapter")), TH_ERROR_STATE);
    th_error_clear(ctx);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
}

static void load_adapters_of_another_rank(void)
{
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2}), TH_OK);
    ck_assert_int_eq(th_lora_save(model, in_folder("adapter"), NULL), TH_OK);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    size_t bytes;
    char *text = read_bytes(in_folder("adapter/adapter_config.json"), &bytes), *rank = strstr(text, "\"r\": 2");
    ck_assert_ptr_nonnull(rank);
    rank[5] = '3';
    write_bytes(in_folder("adapter/adapter_config.json"), text, bytes);
    free(text);
    ck_assert_int_ne(th_lora_load(model, in_folder("adapter")), TH_OK);
    ck_assert_int_eq(th_lora_count(model), 0);
}

static void save_and_load_a_checkpoint(void)
{
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1});
    const th_checkpoint checkpoint = {.model = model, .optimizer = adam, .configuration = "{}"};
    ck_assert_int_eq(th_checkpoint_save(in_folder("last"), &checkpoint), TH_OK);
    ck_assert_int_eq(th_checkpoint_load(in_folder("last"), &checkpoint), TH_OK);
    th_optimizer_free(adam);
}

static void load_a_checkpoint_of_another_optimizer(void)
{
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1}),
                 *sgd = th_sgd_new(model, &(th_sgd_options){.learning_rate = 1});
    ck_assert_int_eq(th_checkpoint_save(in_folder("last"), &(th_checkpoint){.model = model, .optimizer = adam}), TH_OK);
    ck_assert_int_ne(th_checkpoint_load(in_folder("last"), &(th_checkpoint){.model = model, .optimizer = sgd}), TH_OK);
    th_error_clear(ctx);
    th_optimizer_free(adam);
    th_optimizer_free(sgd);
}

static const struct {
    void (*call)(void);
    const char *error; /* in the message; NULL: the call succeeds */
} cases[] = {
    {load_one_file, NULL},
    {load_several_files, NULL},
    {load_transposed, NULL},
    {load_nothing, "config.json"},
    {load_without_weights, "model.safetensors"},
    {load_without_a_shard, "model-00002-of-"},
    {load_a_damaged_configuration, "vocab_size"},
    {load_a_damaged_file, "model.safetensors"},
    {read_end_tokens, NULL},
    {read_too_many_end_tokens, "but there is memory for 0"},
    {export_one_file, NULL},
    {export_several_files, NULL},
    {export_an_unknown_family, "typo"},
    {export_another_family, "GPT-2"},
    {save_and_load_adapters, NULL},
    {load_adapters_twice, NULL},
    {load_adapters_of_another_rank, "lora_A"},
    {save_and_load_a_checkpoint, NULL},
    {load_a_checkpoint_of_another_optimizer, NULL},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Calls one function twice in a context of its own. */
static void call_twice(int i)
{
    size_t bytes[2];
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 1});
    model = th_language_model_new(ctx, &models[0].options);
    ck_assert_ptr_nonnull(model);
    for (int turn = 0; turn < 2; turn++) {
        cases[i].call();
        if (cases[i].error)
            ck_assert_msg(th_error_code(ctx) && strstr(th_error_message(ctx), cases[i].error), "call %d: \"%s\"", i,
                          th_error_message(ctx));
        else
            no_error();
        th_error_clear(ctx);
        bytes[turn] = th_memory(ctx).live;
    }
    ck_assert_uint_eq(bytes[0], bytes[1]);
    ck_assert(th_is_recording(ctx));
    for (int k = 0; k < 64; k++)
        th_scope_begin(ctx, NULL);
    no_error(); /* 64 scopes can be open: none was left */
    th_context_free(ctx);
    delete_folder("model");
    delete_folder("adapter");
}

START_TEST(calls_leave_nothing)
{
    for (int turn = 0; turn < 2; turn++) /* the first call may make what later ones use */
        call_twice(_i);
    const long allocations = live;
    call_twice(_i);
    ck_assert_int_eq(live, allocations);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("leftovers", make_folder, remove_folder);
    tcase_add_loop_test(tests, calls_leave_nothing, 0, CASES);
    return run_suites();
}
