/* The settings as JSON in checkpoints and config.json, and back: see settings.h. */
#include <jansson.h>
#include <string.h>

#include "factors.h"
#include "options.h"
#include "schedules.h"
#include "settings.h"

/* Settings without an option: the split of the text, and the model, which may come from a folder. The table contains
 * all members of th_language_model_options except cross_attention, which such a model does not have
 * (tests/programs/test_settings.c finds a missing member). Enumerations are integers here, converted by hand. */
static int64_t positions, activation, norm;
typedef struct {
    int64_t pairing, scaling;
    const char *short_factor, *long_factor; /* as texts, "" without */
    char short_text[FACTORS_TEXT], long_text[FACTORS_TEXT];
    double short_numbers[MAX_FACTORS], long_numbers[MAX_FACTORS]; /* of settings that were read */
} score_members;
static score_members block_members, other_members;
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
        {name ".qk_norm_no_weight", .flag = &MODEL.member.qk_norm_no_weight},                                          \
        {name ".qk_norm_eps", RATE(member.qk_norm_eps)}, {name ".soft_cap", REAL(member.soft_cap)},                    \
    {                                                                                                                  \
        name ".window", OTHER_SIZE(member.window)                                                                      \
    }

const program_option derived_settings[] = {
    {"validation file", .text = &chosen.validation_file},
    {"training tokens", .integer = &chosen.training_tokens, .low = 0, .high = 1e15},
    {"end token", .integer = &chosen.end_token, .low = -1, .high = INT32_MAX},
    {"marked", .flag = &chosen.marked},
    {"tokenizer.json hash", .integer = &chosen.tokenizer_hash, .low = 0, .high = UINT32_MAX},
    {"model.vocabulary", SIZE(vocabulary)},
    {"model.length", SIZE(length)},
    {"model.width", SIZE(width)},
    {"model.heads", SIZE(heads)},
    {"model.layers", .integer = &MODEL.layers, .low = 1, .high = 65536},
    {"model.positions", .integer = &positions, .low = 0, .high = TH_POSITIONS_NONE},
    {"model.first_position", OTHER_SIZE(first_position)},
    {"model.untied", .flag = &MODEL.untied},
    {"model.classifier_bias", .flag = &MODEL.classifier_bias},
    {"model.classifier_transform", .flag = &MODEL.classifier_transform},
    {"model.no_classifier", .flag = &MODEL.no_classifier},
    {"model.bidirectional", .flag = &MODEL.bidirectional},
    {"model.token_types", OTHER_SIZE(token_types)},
    {"model.input_norm", .flag = &MODEL.input_norm},
    {"model.relative_buckets", OTHER_SIZE(relative_buckets)},
    {"model.relative_distance", OTHER_SIZE(relative_distance)},
    {"model.dropout", RATE(dropout)},
    {"model.embedding_dropout", RATE(embedding_dropout)},
    {"model.embedding_scale", REAL(embedding_scale)},
    {"model.bigram_rows", OTHER_SIZE(bigram_rows)},
    {"model.embedding_norm", .flag = &MODEL.embedding_norm},
    {"model.logit_divisor", REAL(logit_divisor)},
    {"model.logit_soft_cap", REAL(logit_soft_cap)},
    {"model.block.mlp_width", OTHER_SIZE(block.mlp_width)},
    {"model.block.no_mlp", .flag = &MODEL.block.no_mlp},
    {"model.block.gated", .flag = &MODEL.block.gated},
    {"model.block.post_norm", .flag = &MODEL.block.post_norm},
    {"model.block.output_norm", .flag = &MODEL.block.output_norm},
    {"model.block.no_input_norm", .flag = &MODEL.block.no_input_norm},
    {"model.block.parallel", .flag = &MODEL.block.parallel},
    {"model.block.shared_norm", .flag = &MODEL.block.shared_norm},
    {"model.block.branch_scale", REAL(block.branch_scale)},
    {"model.block.activation", .integer = &activation, .low = 0, .high = TH_TANH},
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
    {"model.block.value_residual", .flag = &MODEL.block.value_residual},
    {"model.block.embedding_skip", .flag = &MODEL.block.embedding_skip},
    {"model.block.no_first_norm", .flag = &MODEL.block.no_first_norm},
    {"model.block.recompute", .flag = &MODEL.block.recompute},
    SCORE_SETTINGS("model.block.scores", block.scores, block_members),
    SCORE_SETTINGS("model.other_scores", other_scores, other_members),
    {"model.other_layers", .text = &other_layers},
    {"model.scale_by_layer", .flag = &MODEL.scale_by_layer},
    {"model.initialization.embedding_deviation", REAL(initialization.embedding_deviation)},
    {"model.initialization.deviation", REAL(initialization.deviation)},
    {"model.initialization.uniform", .flag = &MODEL.initialization.uniform},
    {"model.initialization.zero_branches", .flag = &MODEL.initialization.zero_branches},
    {"model.initialization.zero_classifier", .flag = &MODEL.initialization.zero_classifier},
    {0},
};

static json_t *option_to_json(const program_option *option)
{
    return option->integer ? json_integer((json_int_t)*option->integer)
           : option->real  ? json_real(*option->real)
           : option->flag  ? json_boolean(*option->flag)
           : *option->text ? json_string(*option->text)
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
static const bool *other_layers_from_text(void)
{
    static bool flag[MAX_TEXT];
    for (size_t i = 0; other_layers[i]; i++)
        flag[i] = other_layers[i] == '1';
    return other_layers[0] ? flag : NULL;
}

/* Converts the members of scores that are neither numbers nor flags. */
static void scores_to_members(const th_score_options *scores, score_members *c)
{
    const th_rotary_scaling *s = &scores->rotary_scaling;
    c->pairing = scores->rotary_pairing;
    c->scaling = s->kind;
    c->short_factor = factors_to_text(s->short_factor, s->n_factors, c->short_text);
    c->long_factor = factors_to_text(s->long_factor, s->n_factors, c->long_text);
    if (c->short_factor == NULL || c->long_factor == NULL)
        give_up(PROGRAM, "a checkpoint stores at most 160 rotary factors");
}

/* The reverse of scores_to_members, for texts that have been checked. */
static void members_to_scores(score_members *c, th_score_options *scores)
{
    th_rotary_scaling *s = &scores->rotary_scaling;
    scores->rotary_pairing = (th_rotary_pairing)c->pairing;
    s->kind = (th_rotary_scaling_kind)c->scaling;
    s->n_factors = factors_from_text(c->short_factor, c->short_numbers);
    (void)factors_from_text(c->long_factor, c->long_numbers);
    s->short_factor = s->n_factors > 0 ? c->short_numbers : NULL;
    s->long_factor = s->n_factors > 0 ? c->long_numbers : NULL;
}

/* Returns whether both texts are valid and have the same number of factors. */
static bool factors_fit(score_members *c)
{
    const int64_t count = factors_from_text(c->short_factor, c->short_numbers);
    return count >= 0 && factors_from_text(c->long_factor, c->long_numbers) == count;
}

char *settings_to_json(void)
{
    const program_option *const tables[] = {run_options, derived_settings};
    json_t *object = json_object();
    positions = MODEL.positions;
    activation = MODEL.block.activation;
    norm = MODEL.block.norm;
    scores_to_members(&MODEL.block.scores, &block_members);
    scores_to_members(&MODEL.other_scores, &other_members);
    other_layers = other_layers_to_text();
    bool complete = json_object_set_new(object, "program", json_string(PROGRAM)) == 0;
    for (int i = 0; i < 2; i++)
        for (const program_option *option = tables[i]; option->name; option++)
            complete = json_object_set_new(object, option->name, option_to_json(option)) == 0 && complete;
    char *text = complete ? json_dumps(object, JSON_INDENT(2)) : NULL; /* with 17 digits, which preserve every double */
    json_decref(object);
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

static bool may_be_null(const program_option *option)
{
    return option->text == &chosen.from || option->text == &chosen.freeze || option->text == &chosen.prompt ||
           option->text == &chosen.lora_targets || option->text == &chosen.chat ||
           option->text == &chosen.template_variables || option->text == &chosen.template_date ||
           option->text == &chosen.validation_file || option->text == &chosen.activation;
}

static bool is_valid(const program_option *option, const json_t *value)
{
    const double number = json_number_value(value); /* 0 if it is not a number */
    const bool in_range = number >= option->low && number <= option->high;
    return option->flag      ? json_is_boolean(value)
           : option->integer ? json_is_integer(value) && in_range
           : option->real    ? json_is_number(value) && in_range
                             : (json_is_string(value) && json_string_length(value) <= MAX_TEXT) ||
                                (json_is_null(value) && may_be_null(option));
}

/* Describes the values that is_valid accepts. */
static const char *describe_valid_values(const program_option *option, char *text, size_t bytes)
{
    char low[32], high[32];
    if (option->flag)
        return "true or false";
    if (option->text && !option->real)
        return may_be_null(option) ? "a text of at most 4096 bytes, or null" : "a text of at most 4096 bytes";
    snprintf(text, bytes, "a%s number, %s to %s", option->integer ? " whole" : "", spell_number(option->low, low),
             spell_number(option->high, high));
    return text;
}

/* Sets one setting to the value. Ends the program if it is out of range. */
static void set_option_from_json(const program_option *option, const json_t *value, const char *file)
{
    char wanted[100];
    if (!is_valid(option, value))
        refuse_member(file, option->name, value, describe_valid_values(option, wanted, sizeof wanted));
    if (option->flag)
        *option->flag = json_is_true(value);
    if (option->integer)
        *option->integer = json_integer_value(value);
    if (option->real)
        *option->real = json_number_value(value);
    if (option->text)
        *option->text = json_string_value(value); /* NULL for null */
}

static void add_missing(json_t *object, const char *name, json_t *value)
{
    if (json_object_get(object, name) == NULL)
        json_object_set(object, name, value);
    json_decref(value);
}

/* Adds settings that runs of older versions lack. */
static void add_settings_of_older_versions(json_t *object)
{
    /* Models of older versions had no such options: 0 is their default. */
    for (const program_option *option = derived_settings; option->name; option++)
        if (strncmp(option->name, "model.", strlen("model.")) == 0 && json_object_get(object, option->name) == NULL &&
            option->low <= 0)
            json_object_set_new(object, option->name,
                                option->flag   ? json_false()
                                : option->text ? json_string("")
                                               : json_integer(0));
    add_missing(object, "precision", json_string("float32"));
    add_missing(object, "optimizer", json_string("adamw"));
    add_missing(object, "adam-lr", json_integer(0));
    add_missing(object, "momentum", json_real(0.95));
    add_missing(object, "newton-schulz", json_integer(0));
    add_missing(object, "polar-express", json_false());
    add_missing(object, "adjust-lr", json_string("original"));
    add_missing(object, "shards", json_integer(1));
    add_missing(object, "local-steps", json_integer(0));
    add_missing(object, "keep", json_integer(DEFAULT_KEEP));
    add_missing(object, "marked", json_false());
    add_missing(object, "lora", json_integer(0));
    add_missing(object, "lora-alpha", json_integer(0));
    add_missing(object, "lora-dropout", json_integer(0));
    add_missing(object, "lora-targets", json_null());
    add_missing(object, "weights", json_string("float32"));
    add_missing(object, "chat", json_null());
    add_missing(object, "template-variables", json_null());
    add_missing(object, "template-date", json_null());
    add_missing(object, "no-bias", json_false());
    add_missing(object, "activation", json_null());
    add_missing(object, "qk-norm", json_false());
    add_missing(object, "embedding-norm", json_false());
    add_missing(object, "value-residual", json_false());
    add_missing(object, "embedding-skip", json_false());
    add_missing(object, "bigram", json_integer(0));
    add_missing(object, "embedding-std", json_integer(0));
    add_missing(object, "uniform-init", json_false());
    add_missing(object, "zero-init", json_false());
    add_missing(object, "validation file", json_null());
    add_missing(object, "epochs", json_integer(0));
    add_missing(object, "schedule", json_string("cosine"));
    add_missing(object, "decay", json_real(chosen.decay));
    add_missing(object, "plateau-factor", json_real(chosen.plateau_factor));
    add_missing(object, "plateau-patience", json_integer(chosen.plateau_patience));
    add_missing(object, "average", json_integer(0));
    add_missing(object, "batch-from", json_integer(0));
    add_missing(object, "batch-growth", json_real(chosen.batch_growth));
}

#define FACTORS_WANTED "empty or at most 160 numbers, as many as long_factor"

/* Checks that the settings are consistent. Each is already within its limits. */
static void check_consistency(const json_t *object, const char *file)
{
    const th_transformer_block_options *block = &MODEL.block;
    th_precision precision;
    th_dtype storage;
    th_muon_adjustment adjustment;
    const struct {
        const char *name, *wanted;
        bool fits;
    } rules[] = {
        {"precision", "float32, bfloat16x3, bfloat16 or int8", find_precision(chosen.precision, &precision)},
        {"optimizer", "adamw or muon", uses_muon() || strcmp(chosen.optimizer, "adamw") == 0},
        {"adam-lr", "positive with the optimizer muon", !uses_muon() || chosen.adam_lr > 0},
        {"adjust-lr", "original or match_rms_adamw", find_adjustment(chosen.adjust_lr, &adjustment)},
        {"weights", "float32, bfloat16, float16, q8_0 or q4_0", find_storage(chosen.weights, &storage)},
        {"activation", "null, " ACTIVATION_NAMES, chosen.activation == NULL || is_activation(chosen.activation)},
        {"heads", "a divisor of \"width\"", chosen.from || chosen.width % chosen.heads == 0},
        {"kv-heads", "0 or a divisor of \"heads\"", chosen.kv_heads == 0 || chosen.heads % chosen.kv_heads == 0},
        {"model.heads", "a divisor of \"model.width\"", block->head_width > 0 || MODEL.width % MODEL.heads == 0},
        {"model.block.kv_heads", "0 or a divisor of \"model.heads\"",
         block->kv_heads == 0 || MODEL.heads % block->kv_heads == 0},
        {"model.block.scores.rotary_scaling.short_factor", FACTORS_WANTED, factors_fit(&block_members)},
        {"model.other_scores.rotary_scaling.short_factor", FACTORS_WANTED, factors_fit(&other_members)},
        {"model.other_layers", "empty, or a digit for each layer, 0 or 1",
         other_layers[0] == 0 ||
             (strspn(other_layers, "01") == strlen(other_layers) && (int64_t)strlen(other_layers) == MODEL.layers)},
        {"bigram", "0 or at least 2", chosen.bigram != 1},
        {"model.bigram_rows", "0 or at least 2", MODEL.bigram_rows != 1},
        {"shards", "a divisor of \"batch\"", chosen.batch % chosen.shards == 0},
        {"schedule", "cosine, linear, wsd, wsd-sqrt, plateau or constant", is_schedule(chosen.schedule)},
        {"batch-from", "0 to \"batch\", and a multiple of \"shards\"",
         chosen.batch_from <= chosen.batch && chosen.batch_from % chosen.shards == 0},
        {"local-steps", "0 or a divisor of \"steps\" and \"eval-every\"",
         local_steps_divide(chosen.steps) && local_steps_divide(chosen.eval_every)},
        {"length", "1 to \"model.length\"", chosen.length >= 1 && chosen.length <= MODEL.length},
        {"end token", "-1 or less than \"model.vocabulary\"", chosen.end_token < MODEL.vocabulary},
        {"min-lr", "0 to \"lr\"", chosen.min_lr >= 0 && chosen.min_lr <= chosen.lr},
        {"prompt", "null or a text that is not empty", chosen.prompt == NULL || chosen.prompt[0] != 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].fits)
            refuse_member(file, rules[i].name, json_object_get(object, rules[i].name), rules[i].wanted);
}

void settings_from_json(const char *text, const char *file)
{
    const program_option *const tables[] = {run_options, derived_settings};
    static json_t *object; /* not freed, because settings point to its strings */
    char problem[300];
    json_decref(object);
    object = strlen(text) <= MAX_SETTINGS ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(object) || !json_is_string(json_object_get(object, "program")) ||
        strcmp(json_string_value(json_object_get(object, "program")), PROGRAM) != 0) {
        snprintf(problem, sizeof problem, "%.200s is not a checkpoint of this program", file);
        give_up(PROGRAM, problem);
    }
    add_settings_of_older_versions(object);
    for (int i = 0; i < 2; i++)
        for (const program_option *option = tables[i]; option->name; option++)
            set_option_from_json(option, json_object_get(object, option->name), file);
    check_consistency(object, file);
    MODEL.positions = (th_position_kind)positions;
    MODEL.block.activation = (th_activation)activation;
    MODEL.block.norm = (th_norm)norm;
    members_to_scores(&block_members, &MODEL.block.scores);
    members_to_scores(&other_members, &MODEL.other_scores);
    MODEL.other_layers = other_layers_from_text();
}
