/* The settings: defaults, options of the command line, and conversion to and from JSON in checkpoints. The defaults are
 * nanoGPT's for a CPU, a model of 0.8 million parameters, with three times its learning rate. */
#include "settings.h"

#include <jansson.h>
#include <string.h>

#include "../processes.h"
#include "checkpoints.h"
#include "factors.h"

enum { MAX_TEXT = 4096 }; /* bytes of one text among the settings */
enum { DEFAULT_KEEP = 2, DEFAULT_LAYERS = 4, DEFAULT_HEADS = 4, DEFAULT_WIDTH = 128 };
/* docs/tuning.md explains how the rate was found for a model of this width. */
static const double TUNING_LR = 3e-4, TUNED_WIDTH = 128;

given_options was_given;
settings chosen = {
    .tokenizer = "characters",
    .vocabulary = 4096,
    .validation = 0.1,
    .layers = DEFAULT_LAYERS,
    .heads = DEFAULT_HEADS,
    .width = DEFAULT_WIDTH,
    .keep = DEFAULT_KEEP,
    .steps = 2000,
    .precision = "float32",
    .batch = DEFAULT_BATCH,
    .shards = 1,
    .accumulate = 1,
    .warmup = 100,
    .seed = 1,
    .lr = 3e-3,
    .min_lr = -1,
    .beta1 = 0.9,
    .beta2 = 0.99,
    .weight_decay = 0.1,
    .clip = 1,
    .log_every = 10,
    .eval_every = 250,
    .eval_batches = 20,
    .sample_tokens = 200,
    .temperature = 0.8,
};

/* -- the options of train -- */

#define MAX_STEPS 1e9

static const program_option options_of_a_run[] = {
    {"tokenizer",
     "characters, bytes, bpe (learned from the text), or a transformers folder; with --from the model's own",
     .text = &chosen.tokenizer, .given = &was_given.tokenizer, .group = "The text"},
    {"vocabulary", "tokens that bpe learns", .integer = &chosen.vocabulary, .low = 256, .high = 1e6},
    {"validation", "share of the text, its end, to measure on", .real = &chosen.validation, .low = 1e-6, .high = 0.9},
    {"layers", "transformer blocks", .integer = &chosen.layers, .low = 1, .high = 1000, .group = "The model"},
    {"heads", "of attention; their number divides the width", .integer = &chosen.heads, .low = 1, .high = 1024},
    {"kv-heads", "of keys and values; 0: as many", .integer = &chosen.kv_heads, .low = 0, .high = 1024},
    {"width", "of the model", .integer = &chosen.width, .low = 1, .high = 65536},
    {"mlp-width", "inside the MLP; 0: 4 times the width, 8/3 with --llama", .integer = &chosen.mlp_width, .low = 0,
     .high = 1e6},
    {"length",
     "tokens that the model sees at once; 0: 64, or with --from the model's length, at most 4096 and the training "
     "text; halved while training needs over half of the memory",
     .integer = &chosen.length, .low = 0, .high = 1e6},
    {"dropout", "at every point where GPT-2 has dropout", .real = &chosen.dropout, .low = 0, .high = 0.99},
    {"llama", "Llama's norms, MLP and rotary positions instead of GPT-2's", .flag = &chosen.llama},
    {"recompute", "less memory, more time: blocks run again in backward", .flag = &chosen.recompute},
    {"from", "start with the model in this transformers folder, with its layers and widths", .text = &chosen.from},
    {"freeze", "parameters that are not trained: \"embedding.*,layers.[0-5].*\"", .text = &chosen.freeze},
    {"steps", "of the optimizer", .integer = &chosen.steps, .low = 0, .high = MAX_STEPS, .group = "Training"},
    {"batch", "windows of the text in a batch; with --from as many as 768 tokens fill, 1 to 12",
     .integer = &chosen.batch, .low = 1, .high = 1e6, .given = &was_given.batch},
    {"shards", SHARDS_HELP, .integer = &chosen.shards, .low = 1, .high = 4096},
    {"local-steps",
     "steps of each process alone, until the processes join their parameters (DiLoCo); 0: they join each step",
     .integer = &chosen.local_steps, .low = 0, .high = MAX_STEPS},
    {"accumulate", "batches in a step, one after another", .integer = &chosen.accumulate, .low = 1, .high = 1e6},
    {"lr", "the highest learning rate; with --from 0.0003, or 0.0384 / width for a width above 128", .real = &chosen.lr,
     .low = 1e-12, .high = 1e3, .given = &was_given.lr},
    {"min-lr", "learning rate at the end; -1: a tenth of the highest, at most 0.0003", .real = &chosen.min_lr,
     .low = -1, .high = 1e3},
    {"warmup", "steps up to the highest learning rate", .integer = &chosen.warmup, .low = 0, .high = MAX_STEPS},
    {"weight-decay", "of matrices (AdamW)", .real = &chosen.weight_decay, .low = 0, .high = 10},
    {"beta1", "of AdamW", .real = &chosen.beta1, .low = 0, .high = 0.99999},
    {"beta2", "of AdamW", .real = &chosen.beta2, .low = 0, .high = 0.99999},
    {"clip", "largest norm of the gradient; 0: no limit", .real = &chosen.clip, .low = 0, .high = 1e9},
    {"patience", "stop after this many evaluations without an improvement; 0: never", .integer = &chosen.patience,
     .low = 0, .high = MAX_STEPS},
    {"seed", "of all random numbers", .integer = &chosen.seed, .low = 0, .high = 1e15},
    {"threads", "0: one for each processor; the results are the same", .integer = &chosen.threads, .low = 0,
     .high = 1024},
    {"precision", PRECISION_HELP, .text = &chosen.precision},
    {"log-every", "steps from one line of the log to the next", .integer = &chosen.log_every, .low = 1,
     .high = MAX_STEPS, .group = "Reports"},
    {"eval-every", "steps from one evaluation, sample and checkpoint to the next", .integer = &chosen.eval_every,
     .low = 1, .high = MAX_STEPS},
    {"keep", "checkpoints to keep, the newest included", .integer = &chosen.keep, .low = 1, .high = MAX_CHECKPOINTS},
    {"eval-batches", "to evaluate on; 0: all of the validation text", .integer = &chosen.eval_batches, .low = 0,
     .high = MAX_STEPS},
    {"sample-tokens", "of a sample; 0: no samples", .integer = &chosen.sample_tokens, .low = 0, .high = 1e6},
    {"temperature", "of samples", .real = &chosen.temperature, .low = 0, .high = 100},
    {"prompt", "beginning of samples (default: a new line)", .text = &chosen.prompt},
    {0},
};

const program_option *options_with(const program_option *more)
{
    static program_option all[MAX_OPTIONS + 1];
    int count = 0;
    for (const program_option *o = options_of_a_run; o->name; o++)
        all[count++] = *o;
    for (const program_option *o = more; o->name && count < MAX_OPTIONS; o++)
        all[count++] = *o;
    all[count] = (program_option){0};
    return all;
}

/* Sets the options of Llama. GPT-2's are zero. */
static void set_llama_options(th_language_model_options *m)
{
    m->positions = TH_POSITIONS_NONE;
    m->untied = true;
    m->block.norm = TH_RMS_NORM;
    m->block.gated = true;
    m->block.activation = TH_SILU;
    m->block.no_bias = true;
    m->block.scores.rotary = true;
    if (m->block.mlp_width == 0) /* three matrices with about as many weights as two of 4 times the width */
        m->block.mlp_width = (8 * m->width / 3 + 15) / 16 * 16;
}

/* Returns whether an option of the model differs from its default. */
static bool has_model_options(void)
{
    return chosen.llama || chosen.layers != DEFAULT_LAYERS || chosen.heads != DEFAULT_HEADS || chosen.kv_heads != 0 ||
           chosen.width != DEFAULT_WIDTH || chosen.mlp_width != 0;
}

static bool local_steps_divide(int64_t steps)
{
    return chosen.local_steps == 0 || steps % chosen.local_steps == 0;
}

void check_local_steps(void)
{
    char problem[200];
    const bool in_all = local_steps_divide(chosen.steps);
    snprintf(problem, sizeof problem, "--local-steps %lld does not divide --%s %lld", (long long)chosen.local_steps,
             in_all ? "eval-every" : "steps", (long long)(in_all ? chosen.eval_every : chosen.steps));
    if (!in_all || !local_steps_divide(chosen.eval_every))
        refuse(PROGRAM, problem, "");
}

static void refuse_contradictions(void)
{
    const int64_t heads = chosen.heads, width = chosen.width;
    char problem[200];
    if (width % heads != 0) {
        snprintf(problem, sizeof problem,
                 "--heads %lld does not divide --width %lld; the next widths that it divides are %lld and %lld",
                 (long long)heads, (long long)width, (long long)(width < heads ? heads : width / heads * heads),
                 (long long)(width < heads ? 2 * heads : (width / heads + 1) * heads));
        refuse(PROGRAM, problem, "");
    }
    if (chosen.kv_heads && heads % chosen.kv_heads != 0) {
        snprintf(problem, sizeof problem, "--kv-heads %lld does not divide --heads %lld", (long long)chosen.kv_heads,
                 (long long)heads);
        refuse(PROGRAM, problem, "");
    }
    if (chosen.llama && width / heads % 2 != 0) {
        snprintf(problem, sizeof problem,
                 "--width %lld / --heads %lld is %lld: with --llama it must be even, as with --width %lld",
                 (long long)width, (long long)heads, (long long)(width / heads), (long long)(width + heads));
        refuse(PROGRAM, problem, "");
    }
    if (chosen.from && has_model_options())
        refuse(PROGRAM,
               "--llama, --layers, --heads, --kv-heads, --width and --mlp-width are for new models: --from a folder "
               "takes the model as it is",
               "");
    if (chosen.prompt && chosen.prompt[0] == 0)
        refuse(PROGRAM, "the prompt must not be empty", "");
    if (!chosen.from || was_given.batch) /* otherwise length.c chooses the batch */
        check_shards(PROGRAM, chosen.shards, chosen.batch);
    check_local_steps();
}

void complete_rates(void)
{
    char problem[100];
    if (chosen.from && !was_given.lr)
        chosen.lr = TUNING_LR * fmin(1, TUNED_WIDTH / (double)chosen.model.width);
    if (chosen.min_lr > chosen.lr) {
        snprintf(problem, sizeof problem, "--min-lr %g is more than --lr, which is %g", chosen.min_lr, chosen.lr);
        refuse(PROGRAM, problem, "");
    }
    if (chosen.min_lr < 0)
        chosen.min_lr = fmin(chosen.lr / 10, 3e-4);
}

/* Longer texts could be saved, but not loaded. */
static void refuse_long_texts(void)
{
    for (const program_option *o = options_of_a_run; o->name; o++)
        if (o->text && *o->text && strlen(*o->text) > MAX_TEXT)
            refuse(PROGRAM, "this option takes at most 4096 bytes: --", o->name);
}

void complete_settings(void)
{
    refuse_contradictions();
    refuse_long_texts();
    if (chosen.from && !was_given.tokenizer)
        chosen.tokenizer = chosen.from;
    if (chosen.length == 0 && !chosen.from)
        chosen.length = DEFAULT_LENGTH;
    chosen.model = (th_language_model_options){
        .length = chosen.length,
        .width = chosen.width,
        .heads = chosen.heads,
        .layers = chosen.layers,
        .dropout = chosen.dropout,
        .block = {.attention_dropout = chosen.dropout,
                  .kv_heads = chosen.kv_heads,
                  .mlp_width = chosen.mlp_width,
                  .recompute = chosen.recompute},
    };
    if (chosen.llama)
        set_llama_options(&chosen.model);
    if (!chosen.from)
        complete_rates();
}

/* -- conversion to and from JSON -- */

/* Settings without an option: the split of the text, and the model, which may come from a folder. The table contains
 * all members of th_language_model_options except cross_attention, which such a model does not have
 * (tests/test_settings.c finds a missing member). Enumerations are integers here, converted by hand. */
static int64_t positions, activation, norm;
typedef struct {
    int64_t pairing, scaling;
    const char *short_factor, *long_factor; /* as texts, "" without */
    char short_text[FACTORS_TEXT], long_text[FACTORS_TEXT];
    double short_numbers[MAX_FACTORS], long_numbers[MAX_FACTORS]; /* of settings that were read */
} converted_scores;
static converted_scores of_block, of_others;
static const char *other_layers; /* a digit for each layer, 1 or 0; "" without other_scores */
#define MODEL chosen.model
#define SIZE(member) .integer = &MODEL.member, .low = 1, .high = INT32_MAX
#define OTHER_SIZE(member) .integer = &MODEL.member, .low = 0, .high = INT32_MAX /* 0: computed from other settings */
#define RATE(member) .real = &MODEL.member, .low = 0, .high = 0.999999
#define REAL(member) .real = &MODEL.member, .low = 0, .high = 1e300

/* All members of a th_score_options. */
#define SCORE_SETTINGS(name, member, enums)                                                                            \
    {name ".rotary", .flag = &MODEL.member.rotary},                                                                    \
        {name ".rotary_pairing", .integer = &(enums).pairing, .low = 0, .high = TH_ROTARY_NEIGHBORS},                  \
        {name ".rotary_base", REAL(member.rotary_base)}, {name ".rotary_width", OTHER_SIZE(member.rotary_width)},      \
        {name ".rotary_scaling.kind", .integer = &(enums).scaling, .low = 0, .high = TH_ROTARY_LONGROPE},              \
        {name ".rotary_scaling.factor", REAL(member.rotary_scaling.factor)},                                           \
        {name ".rotary_scaling.low_freq_factor", REAL(member.rotary_scaling.low_freq_factor)},                         \
        {name ".rotary_scaling.high_freq_factor", REAL(member.rotary_scaling.high_freq_factor)},                       \
        {name ".rotary_scaling.original_length", OTHER_SIZE(member.rotary_scaling.original_length)},                   \
        {name ".rotary_scaling.attention_factor", REAL(member.rotary_scaling.attention_factor)},                       \
        {name ".rotary_scaling.beta_fast", REAL(member.rotary_scaling.beta_fast)},                                     \
        {name ".rotary_scaling.beta_slow", REAL(member.rotary_scaling.beta_slow)},                                     \
        {name ".rotary_scaling.mscale", REAL(member.rotary_scaling.mscale)},                                           \
        {name ".rotary_scaling.mscale_all_dim", REAL(member.rotary_scaling.mscale_all_dim)},                           \
        {name ".rotary_scaling.no_truncate", .flag = &MODEL.member.rotary_scaling.no_truncate},                        \
        {name ".rotary_scaling.short_factor", .text = &(enums).short_factor},                                          \
        {name ".rotary_scaling.long_factor", .text = &(enums).long_factor},                                            \
        {name ".alibi", .flag = &MODEL.member.alibi}, {name ".qk_norm", .flag = &MODEL.member.qk_norm},                \
        {name ".qk_norm_whole", .flag = &MODEL.member.qk_norm_whole},                                                  \
        {name ".qk_norm_unit_offset", .flag = &MODEL.member.qk_norm_unit_offset},                                      \
        {name ".qk_norm_eps", RATE(member.qk_norm_eps)}, {name ".soft_cap", REAL(member.soft_cap)},                    \
    {                                                                                                                  \
        name ".window", OTHER_SIZE(member.window)                                                                      \
    }

static const program_option derived_settings[] = {
    {"training tokens", .integer = &chosen.training_tokens, .low = 0, .high = 1e15},
    {"end token", .integer = &chosen.end_token, .low = -1, .high = INT32_MAX},
    {"tokenizer.json hash", .integer = &chosen.tokenizer_hash, .low = 0, .high = UINT32_MAX},
    {"model.vocabulary", SIZE(vocabulary)},
    {"model.length", SIZE(length)},
    {"model.width", SIZE(width)},
    {"model.heads", SIZE(heads)},
    {"model.layers", .integer = &MODEL.layers, .low = 1, .high = 65536},
    {"model.positions", .integer = &positions, .low = 0, .high = TH_POSITIONS_NONE},
    {"model.untied", .flag = &MODEL.untied},
    {"model.dropout", RATE(dropout)},
    {"model.embedding_dropout", RATE(embedding_dropout)},
    {"model.embedding_scale", REAL(embedding_scale)},
    {"model.logit_soft_cap", REAL(logit_soft_cap)},
    {"model.block.mlp_width", OTHER_SIZE(block.mlp_width)},
    {"model.block.no_mlp", .flag = &MODEL.block.no_mlp},
    {"model.block.gated", .flag = &MODEL.block.gated},
    {"model.block.post_norm", .flag = &MODEL.block.post_norm},
    {"model.block.output_norm", .flag = &MODEL.block.output_norm},
    {"model.block.no_input_norm", .flag = &MODEL.block.no_input_norm},
    {"model.block.parallel", .flag = &MODEL.block.parallel},
    {"model.block.activation", .integer = &activation, .low = 0, .high = TH_SILU},
    {"model.block.norm", .integer = &norm, .low = 0, .high = TH_RMS_NORM},
    {"model.block.unit_offset", .flag = &MODEL.block.unit_offset},
    {"model.block.dropout", RATE(block.dropout)},
    {"model.block.no_mlp_dropout", .flag = &MODEL.block.no_mlp_dropout},
    {"model.block.attention_dropout", RATE(block.attention_dropout)},
    {"model.block.no_bias", .flag = &MODEL.block.no_bias},
    {"model.block.no_attention_bias", .flag = &MODEL.block.no_attention_bias},
    {"model.block.no_output_bias", .flag = &MODEL.block.no_output_bias},
    {"model.block.no_mlp_bias", .flag = &MODEL.block.no_mlp_bias},
    {"model.block.kv_heads", OTHER_SIZE(block.kv_heads)},
    {"model.block.head_width", OTHER_SIZE(block.head_width)},
    {"model.block.scale", REAL(block.scale)},
    {"model.block.eps", RATE(block.eps)},
    {"model.block.recompute", .flag = &MODEL.block.recompute},
    SCORE_SETTINGS("model.block.scores", block.scores, of_block),
    SCORE_SETTINGS("model.other_scores", other_scores, of_others),
    {"model.other_layers", .text = &other_layers},
    {"model.scale_by_layer", .flag = &MODEL.scale_by_layer},
    {0},
};

static json_t *to_json(const program_option *o)
{
    return o->integer ? json_integer((json_int_t)*o->integer)
           : o->real  ? json_real(*o->real)
           : o->flag  ? json_boolean(*o->flag)
           : *o->text ? json_string(*o->text)
                      : json_null();
}

/* Returns other_layers as digits. */
static const char *other_layers_to_text(void)
{
    static char text[MAX_TEXT + 1];
    const int64_t count = MODEL.other_layers ? MODEL.layers : 0;
    if (count > MAX_TEXT)
        give_up(PROGRAM, "a model with other_layers may have at most 4096 layers");
    for (int64_t i = 0; i < count; i++)
        text[i] = MODEL.other_layers[i] ? '1' : '0';
    text[count] = 0;
    return text;
}

/* The reverse of other_layers_to_text. */
static const bool *other_layers_of_text(void)
{
    static bool flag[MAX_TEXT];
    for (size_t i = 0; other_layers[i]; i++)
        flag[i] = other_layers[i] == '1';
    return other_layers[0] ? flag : NULL;
}

/* Converts the members of scores that are neither numbers nor flags. */
static void convert_scores(const th_score_options *scores, converted_scores *c)
{
    const th_rotary_scaling *s = &scores->rotary_scaling;
    c->pairing = scores->rotary_pairing;
    c->scaling = s->kind;
    c->short_factor = factors_to_text(s->short_factor, s->n_factors, c->short_text);
    c->long_factor = factors_to_text(s->long_factor, s->n_factors, c->long_text);
    if (c->short_factor == NULL || c->long_factor == NULL)
        give_up(PROGRAM, "a checkpoint stores at most 160 rotary factors");
}

/* The reverse of convert_scores, for texts that have been checked. */
static void convert_scores_back(converted_scores *c, th_score_options *scores)
{
    th_rotary_scaling *s = &scores->rotary_scaling;
    scores->rotary_pairing = (th_rotary_pairing)c->pairing;
    s->kind = (th_rotary_scaling_kind)c->scaling;
    s->n_factors = factors_from_text(c->short_factor, c->short_numbers);
    (void)factors_from_text(c->long_factor, c->long_numbers);
    s->short_factor = s->n_factors > 0 ? c->short_numbers : NULL;
    s->long_factor = s->n_factors > 0 ? c->long_numbers : NULL;
}

/* Whether the texts are as many numbers as pairs of factors. */
static bool factors_fit(converted_scores *c)
{
    const int64_t count = factors_from_text(c->short_factor, c->short_numbers);
    return count >= 0 && factors_from_text(c->long_factor, c->long_numbers) == count;
}

char *settings_to_json(void)
{
    const program_option *const tables[] = {options_of_a_run, derived_settings};
    json_t *all = json_object();
    positions = MODEL.positions;
    activation = MODEL.block.activation;
    norm = MODEL.block.norm;
    convert_scores(&MODEL.block.scores, &of_block);
    convert_scores(&MODEL.other_scores, &of_others);
    other_layers = other_layers_to_text();
    bool complete = json_object_set_new(all, "program", json_string(PROGRAM)) == 0;
    for (int i = 0; i < 2; i++)
        for (const program_option *o = tables[i]; o->name; o++)
            complete = json_object_set_new(all, o->name, to_json(o)) == 0 && complete;
    char *text = complete ? json_dumps(all, JSON_INDENT(2)) : NULL; /* with 17 digits, which preserve every double */
    json_decref(all);
    if (text == NULL)
        give_up(PROGRAM, "the settings cannot be written as JSON: an option is not UTF-8, or memory ran out");
    return text;
}

/* Returns a value as JSON in visible ASCII characters, or NULL; the caller releases it with free. */
static char *to_visible(const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT) : NULL;
    for (char *c = text; c && *c; c++)
        if (*c == 127) /* jansson escapes all other control characters */
            *c = '?';
    return text;
}

/* Ends the program: the member `name` is wrong, or missing (value is NULL). */
static _Noreturn void refuse_member(const char *file, const char *name, const json_t *value, const char *wanted)
{
    char problem[512];
    char *written = to_visible(value);
    snprintf(problem, sizeof problem, "the settings in %.200s: \"%s\" is %.60s%s; it must be %s", file, name,
             written ? written : "missing", written && strlen(written) > 60 ? "..." : "", wanted);
    free(written);
    give_up(PROGRAM, problem);
    abort(); /* not reached */
}

static bool may_be_null(const program_option *o)
{
    return o->text == &chosen.from || o->text == &chosen.freeze || o->text == &chosen.prompt;
}

static bool is_valid(const program_option *o, const json_t *value)
{
    const double number = json_number_value(value); /* 0 if it is not a number */
    const bool in_range = number >= o->low && number <= o->high;
    return o->flag      ? json_is_boolean(value)
           : o->integer ? json_is_integer(value) && in_range
           : o->real    ? json_is_number(value) && in_range
                        : (json_is_string(value) && json_string_length(value) <= MAX_TEXT) ||
                           (json_is_null(value) && may_be_null(o));
}

/* Describes the values that is_valid accepts. */
static const char *describe(const program_option *o, char *text, size_t bytes)
{
    char low[32], high[32];
    if (o->flag)
        return "true or false";
    if (o->text)
        return may_be_null(o) ? "a text of at most 4096 bytes, or null" : "a text of at most 4096 bytes";
    snprintf(text, bytes, "a%s number, %s to %s", o->integer ? " whole" : "", spell_number(o->low, low),
             spell_number(o->high, high));
    return text;
}

/* Stores one value. */
static void from_json(const program_option *o, const json_t *value, const char *file)
{
    char wanted[100];
    if (!is_valid(o, value))
        refuse_member(file, o->name, value, describe(o, wanted, sizeof wanted));
    if (o->flag)
        *o->flag = json_is_true(value);
    if (o->integer)
        *o->integer = json_integer_value(value);
    if (o->real)
        *o->real = json_number_value(value);
    if (o->text)
        *o->text = json_string_value(value); /* NULL for null */
}

/* Adds settings that runs of older versions lack. */
static void add_older(json_t *all)
{
    /* Models of older versions had no such options: 0 is their default. */
    for (const program_option *o = derived_settings; o->name; o++)
        if (strncmp(o->name, "model.", strlen("model.")) == 0 && json_object_get(all, o->name) == NULL && o->low <= 0)
            json_object_set_new(all, o->name, o->flag ? json_false() : o->text ? json_string("") : json_integer(0));
    if (json_object_get(all, "precision") == NULL)
        json_object_set_new(all, "precision", json_string("float32"));
    if (json_object_get(all, "shards") == NULL)
        json_object_set_new(all, "shards", json_integer(1));
    if (json_object_get(all, "local-steps") == NULL)
        json_object_set_new(all, "local-steps", json_integer(0));
    if (json_object_get(all, "keep") == NULL)
        json_object_set_new(all, "keep", json_integer(DEFAULT_KEEP));
}

#define FACTORS_WANTED "empty or at most 160 numbers, as many as long_factor"

/* Checks that the settings are consistent. Each is already within its limits. */
static void refuse_inconsistent(const json_t *all, const char *file)
{
    const th_transformer_block_options *block = &MODEL.block;
    th_precision precision;
    const struct {
        const char *name, *wanted;
        bool fits;
    } rules[] = {
        {"precision", "float32, bfloat16x3 or bfloat16", find_precision(chosen.precision, &precision)},
        {"heads", "a divisor of \"width\"", chosen.width % chosen.heads == 0},
        {"kv-heads", "0 or a divisor of \"heads\"", chosen.kv_heads == 0 || chosen.heads % chosen.kv_heads == 0},
        {"model.heads", "a divisor of \"model.width\"", block->head_width > 0 || MODEL.width % MODEL.heads == 0},
        {"model.block.kv_heads", "0 or a divisor of \"model.heads\"",
         block->kv_heads == 0 || MODEL.heads % block->kv_heads == 0},
        {"model.block.scores.rotary_scaling.short_factor", FACTORS_WANTED, factors_fit(&of_block)},
        {"model.other_scores.rotary_scaling.short_factor", FACTORS_WANTED, factors_fit(&of_others)},
        {"model.other_layers", "empty, or a digit for each layer, 0 or 1",
         other_layers[0] == 0 ||
             (strspn(other_layers, "01") == strlen(other_layers) && (int64_t)strlen(other_layers) == MODEL.layers)},
        {"shards", "a divisor of \"batch\"", chosen.batch % chosen.shards == 0},
        {"local-steps", "0 or a divisor of \"steps\" and \"eval-every\"",
         local_steps_divide(chosen.steps) && local_steps_divide(chosen.eval_every)},
        {"length", "1 to \"model.length\"", chosen.length >= 1 && chosen.length <= MODEL.length},
        {"end token", "-1 or less than \"model.vocabulary\"", chosen.end_token < MODEL.vocabulary},
        {"min-lr", "0 to \"lr\"", chosen.min_lr >= 0 && chosen.min_lr <= chosen.lr},
        {"prompt", "null or a text that is not empty", chosen.prompt == NULL || chosen.prompt[0] != 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].fits)
            refuse_member(file, rules[i].name, json_object_get(all, rules[i].name), rules[i].wanted);
}

void settings_from_json(const char *text, const char *file)
{
    const program_option *const tables[] = {options_of_a_run, derived_settings};
    static json_t *all; /* not freed, because settings point to its strings */
    char problem[300];
    json_decref(all);
    all = strlen(text) <= MAX_SETTINGS ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(all) || !json_is_string(json_object_get(all, "program")) ||
        strcmp(json_string_value(json_object_get(all, "program")), PROGRAM) != 0) {
        snprintf(problem, sizeof problem, "%.200s is not a checkpoint of this program", file);
        give_up(PROGRAM, problem);
    }
    add_older(all);
    for (int i = 0; i < 2; i++)
        for (const program_option *o = tables[i]; o->name; o++)
            from_json(o, json_object_get(all, o->name), file);
    refuse_inconsistent(all, file);
    MODEL.positions = (th_position_kind)positions;
    MODEL.block.activation = (th_activation)activation;
    MODEL.block.norm = (th_norm)norm;
    convert_scores_back(&of_block, &MODEL.block.scores);
    convert_scores_back(&of_others, &MODEL.other_scores);
    MODEL.other_layers = other_layers_of_text();
}
