/* Opens and saves models: folders of transformers and of sentence-transformers. */
#include <errno.h>
#include <string.h>

#include "encoder/encoder.h"
#include "shared/system.h"

void require_no_error(const th_context *ctx)
{
    if (th_error_code(ctx) != TH_OK)
        give_up(PROGRAM, th_error_text(ctx));
}

void require_ok(const th_context *ctx, th_status status)
{
    if (status != TH_OK)
        give_up(PROGRAM, th_error_text(ctx));
}

const char *model_folder(const char *path)
{
    return access(path_in(path_in(path, "model"), "config.json"), F_OK) == 0 ? path_in(path, "model") : path;
}

/* Ends the program if the path has no model. */
static void check_folder(const char *folder)
{
    if (is_gguf(folder) || access(path_in(folder, "config.json"), F_OK) == 0)
        return;
    if (errno != ENOENT && errno != ENOTDIR)
        give_up_file(folder, "read");
    refuse(PROGRAM,
           access(path_in(folder, NEWEST_CHECKPOINT), F_OK) == 0
               ? "this run has no model yet; resume it: "
               : "this is not the folder of a model, which has config.json, model.safetensors and tokenizer.json: ",
           folder);
}

/* Sets what follows the encoder, as modules.json or a GGUF file says. A folder without this file: the mean. */
static void read_sentences(encoder *e, const char *folder)
{
    e->sentences = (th_sentence_options){.pooling = TH_POOL_MEAN, .normalize = true};
    if (is_gguf(folder) ? e->task == TASK_EMBED : access(path_in(folder, "modules.json"), F_OK) == 0)
        require_ok(e->ctx, th_sentence_options_read(e->ctx, folder, &e->sentences));
}

/* Sets task and labels as the model's head says. */
static void read_head(encoder *e)
{
    const th_language_model_options *o = th_language_model_options_of(e->model);
    e->length = o->length;
    e->n_labels = o->head.labels;
    e->label_names = o->head.label_names;
    e->several_labels = o->head.problem == TH_PROBLEM_SEVERAL_LABELS;
    e->task = o->head.kind == TH_HEAD_NONE                                                              ? TASK_EMBED
              : o->head.kind == TH_HEAD_SPANS                                                           ? TASK_SPANS
              : o->head.kind == TH_HEAD_TOKENS                                                          ? TASK_TOKENS
              : o->head.problem == TH_PROBLEM_REGRESSION || (o->head.labels == 1 && !e->several_labels) ? TASK_REGRESS
                                                                                                        : TASK_CLASSIFY;
}

void open_encoder(encoder *e, const char *path, th_dtype type)
{
    const char *folder = model_folder(path);
    check_folder(folder);
    e->tokenizer = th_tokenizer_load(e->ctx, folder);
    e->model = th_language_model_from_folder(e->ctx, folder, &(th_folder_load_options){.frozen = true, .type = type});
    require_no_error(e->ctx);
    read_head(e);
    read_sentences(e, folder);
    if (e->sentences.length > 0 && e->sentences.length < e->length)
        e->length = e->sentences.length;
    th_set_training(e->ctx, false);
}

/* -- training -- */

static const struct {
    const char *name;
    th_pooling_kind kind;
} poolings[] = {{"cls", TH_POOL_CLS}, {"mean", TH_POOL_MEAN}, {"max", TH_POOL_MAX}, {"lasttoken", TH_POOL_LAST}};

static void choose_pooling(encoder *e)
{
    for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++)
        if (strcmp(chosen.pooling, poolings[i].name) == 0) {
            e->sentences.pooling = poolings[i].kind;
            return;
        }
    refuse(PROGRAM, "--pooling takes cls, mean, max or lasttoken, not ", chosen.pooling);
}

/* Sets the head that the task needs, with the labels of the examples. */
static void choose_head(encoder *e, const th_text_examples *data, th_head_options *head)
{
    if (e->task == TASK_SPANS) {
        *head = (th_head_options){.kind = TH_HEAD_SPANS, .labels = 2};
        return;
    }
    *head = (th_head_options){.kind = e->task == TASK_TOKENS ? TH_HEAD_TOKENS : TH_HEAD_SEQUENCE,
                              .labels = e->task == TASK_REGRESS ? 1 : data->n_labels,
                              .label_names = e->task == TASK_REGRESS ? NULL : data->label_names,
                              .problem = e->task == TASK_REGRESS ? TH_PROBLEM_REGRESSION : TH_PROBLEM_ONE_LABEL};
    if (e->task == TASK_CLASSIFY && have_several_labels(data))
        head->problem = TH_PROBLEM_SEVERAL_LABELS;
    if (e->task == TASK_TOKENS)
        head->problem = TH_PROBLEM_BY_TARGETS;
    if (e->task != TASK_REGRESS && data->n_labels < 2)
        give_up(PROGRAM, "the examples have only one label, and a classifier needs two");
}

/* Freezes the parameters that --freeze names. */
static void freeze_parameters(encoder *e)
{
    char *patterns = strdup(chosen.freeze), *rest = patterns;
    for (const char *pattern; (pattern = strsep(&rest, ",")) != NULL;) {
        bool found = false;
        for (th_parameter_iterator p = th_module_parameters(e->model); th_parameter_next(&p);)
            if (fnmatch(pattern, p.name, 0) == 0)
                found = th_set_requires_gradient(p.tensor, false) != NULL;
        if (!found)
            refuse(PROGRAM, "--freeze: no parameter has a name like ", pattern);
    }
    free(patterns);
    if (th_module_count_trainable(e->model) == 0)
        refuse(PROGRAM, "--freeze leaves nothing to train: ", chosen.freeze);
}

/* Attaches adapters to the layers. The head is new, so all of it is trained. */
static void attach_adapters(encoder *e)
{
    static const char *const patterns[] = {"layers.*"};
    require_ok(e->ctx, th_lora_attach(e->model, &(th_lora_options){.rank = chosen.lora,
                                                                   .alpha = 2 * (double)chosen.lora,
                                                                   .patterns = patterns,
                                                                   .n_patterns = 1}));
    for (th_parameter_iterator p = th_module_parameters(e->model); th_parameter_next(&p);)
        if (strncmp(p.name, "head.", 5) == 0)
            (void)th_set_requires_gradient(p.tensor, true);
}

/* Sets the largest number of tokens of a text. It must have room for more than what the tokenizer adds, such as [CLS]. */
static void choose_length(encoder *e)
{
    const int64_t positions = e->length;
    th_token_list added = {.count = 0};
    char problem[160];
    require_ok(e->ctx, th_tokenizer_encode_document(e->tokenizer, "", 0, &added));
    const int64_t least = (int64_t)added.count + (e->task == TASK_SPANS ? 3 : 1); /* a question, a sign, a word */
    th_token_list_free(&added);
    if (e->sentences.length > 0 && e->sentences.length < positions)
        e->length = e->sentences.length;
    if (chosen.length > 0)
        e->length = chosen.length;
    snprintf(problem, sizeof problem, "--length takes %lld to %lld tokens with this model and its tokenizer, not ",
             (long long)least, (long long)positions);
    char value[32];
    snprintf(value, sizeof value, "%lld", (long long)e->length);
    if (e->length < least || e->length > positions)
        refuse(PROGRAM, problem, value);
    e->sentences.length = e->length;
}

/* A dense layer behind the pooling is trained, too. */
static void choose_trained(encoder *e)
{
    e->trained = e->model;
    if (e->task != TASK_EMBED || e->sentences.dense == NULL)
        return;
    e->trained = th_module_list_new(e->ctx);
    (void)th_module_list_add(e->trained, e->model);
    (void)th_module_list_add(e->trained, e->sentences.dense);
    require_no_error(e->ctx);
}

void open_pretrained(encoder *e, const th_text_examples *data)
{
    th_head_options head;
    th_language_model_options options;
    check_folder(chosen.model);
    require_ok(e->ctx, th_pretrained_options(e->ctx, chosen.model, &options));
    if (chosen.dropout >= 0)
        options.dropout = options.block.dropout = options.block.attention_dropout = chosen.dropout;
    th_folder_load_options load = {.model = &options};
    if (e->task != TASK_EMBED) {
        choose_head(e, data, &head);
        head.dropout = chosen.dropout > 0 ? chosen.dropout : 0;
        load.head = &head;
    }
    e->tokenizer = th_tokenizer_load(e->ctx, chosen.model);
    e->model = th_language_model_from_folder(e->ctx, chosen.model, &load);
    require_no_error(e->ctx);
    const encoder_task task = e->task;
    read_head(e);
    e->task = task;
    read_sentences(e, chosen.model);
    if (chosen.pooling)
        choose_pooling(e);
    choose_length(e);
    if (chosen.lora > 0)
        attach_adapters(e);
    if (chosen.freeze)
        freeze_parameters(e);
    choose_trained(e);
}

void save_encoder(encoder *e, const char *folder, th_dtype type)
{
    const th_export_options options = {.type = type, .tokenizer = e->tokenizer};
    if (chosen.lora > 0)
        require_ok(e->ctx, th_lora_merge(e->model));
    require_ok(e->ctx, e->task == TASK_EMBED ? th_sentence_export(e->model, folder, &e->sentences, &options)
                                             : th_language_model_export(e->model, folder, &options));
    if (chosen.lora > 0)
        require_ok(e->ctx, th_lora_unmerge(e->model));
}
