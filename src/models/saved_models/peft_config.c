/* Reads adapter_config.json. Every setting that changes the result is used or refused. */
#include <math.h>
#include <string.h>

#include "models/core/context.h"
#include "models/files/json.h"
#include "models/saved_models/peft.h"

/* Settings that are read below, and settings that do not change a finished adapter's results. They are the modules that
 * get one (the tensors show that), the layout of the base's weights, names and versions. */
static const char *const known[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_config",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
};

static bool is_known(const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

/* Returns whether a setting is off: null, false, or empty. */
static bool is_off(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static bool refuse(const th_json_source *s, const char *key, const json_t *value)
{
    char quoted[TH_QUOTED], text[TH_QUOTED];
    const char *string = json_string_value(value);
    th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"%s\"%s%s%s is not supported", s->name,
            th_quote(key, quoted), string ? ": \"" : "", string ? th_quote(string, text) : "", string ? "\"" : "");
    return false;
}

/* Refuses unknown settings that are on. */
static bool check_unknown(const th_json_source *s, json_t *root)
{
    const char *key;
    json_t *value;
    bool valid = true;
    json_object_foreach (root, key, value)
        valid = valid && (is_known(key) || is_off(value) || refuse(s, key, value));
    return valid;
}

/* Checks a setting that must be one of these strings. */
static bool check_choice(const th_json_source *s, const json_t *root, const char *key, const char *only)
{
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(value);
    return value == NULL || (text && strcmp(text, only) == 0) || refuse(s, key, value);
}

/* true, false, or a distribution. Other initializations subtract their first product from the weights of the base. */
static bool check_initialization(const th_json_source *s, const json_t *root)
{
    static const char key[] = "init_lora_weights";
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(value);
    const bool distribution = text && (strcmp(text, "gaussian") == 0 || strcmp(text, "orthogonal") == 0);
    return value == NULL || json_is_boolean(value) || json_is_null(value) || distribution || refuse(s, key, value);
}

/* -- patterns -- */

/* Returns whether the text has no characters with a meaning in regular expressions, except the dots of names. */
static bool is_name(const char *text)
{
    return text[0] && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] == 0;
}

/* Sets *pattern to an object of positive numbers; its keys must be names. whole: only integers are allowed. */
static bool read_pattern(const th_json_source *s, json_t *root, const char *key, bool whole, const json_t **pattern)
{
    json_t *object = json_object_get(root, key), *value;
    const char *name;
    char quoted[TH_QUOTED];
    *pattern = NULL;
    if (object == NULL || is_off(object))
        return true;
    if (!json_is_object(object))
        return refuse(s, key, object);
    json_object_foreach (object, name, value) {
        if (!is_name(name)) {
            th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"%s\" has \"%s\"; only names are supported", s->name,
                    key, th_quote(name, quoted));
            return false;
        }
        const double number = json_number_value(value);
        if (!json_is_number(value) || !(number > 0) || !isfinite(number) || number > INT32_MAX ||
            (whole && !json_is_integer(value))) {
            th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"%s\" of \"%s\" must be a positive %s", s->name, key,
                    th_quote(name, quoted), whole ? "integer" : "number");
            return false;
        }
    }
    *pattern = object;
    return true;
}

/* Returns the number of the first key that is the module's name, or the part of it behind a dot; otherwise NULL. */
static const json_t *number_of(const json_t *pattern, const char *module)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)pattern, key, value) {
        const size_t length = strlen(module), tail = strlen(key);
        if (th_name_ends_with(module, key) && (length == tail || module[length - tail - 1] == '.'))
            return value;
    }
    return NULL;
}

th_lora_setting th_peft_setting_of(const th_peft_config *config, const char *module)
{
    th_lora_setting setting = config->setting;
    const json_t *rank = config->rank_pattern ? number_of(config->rank_pattern, module) : NULL;
    const json_t *alpha = config->alpha_pattern ? number_of(config->alpha_pattern, module) : NULL;
    if (rank)
        setting.rank = (int64_t)json_number_value(rank);
    if (alpha)
        setting.alpha = json_number_value(alpha);
    return setting;
}

/* -- the file -- */

static bool read_setting(const th_json_source *s, const json_t *root, th_lora_setting *setting)
{
    *setting = (th_lora_setting){.alpha = 8};
    if (!th_json_integer(s, root, "r", 1, INT32_MAX, &setting->rank) ||
        !th_json_number(s, root, "lora_alpha", &setting->alpha))
        return false;
    if (json_object_get(root, "lora_dropout") && !th_json_number(s, root, "lora_dropout", &setting->dropout))
        return false;
    if (json_object_get(root, "use_rslora") && !th_json_boolean(s, root, "use_rslora", &setting->rank_stabilized))
        return false;
    if (!(setting->alpha > 0 && setting->alpha <= INT32_MAX))
        th_fail(s->ctx, TH_ERROR_FILE, s->operation,
                "%.300s: \"lora_alpha\" is %g, but it must be positive and at most %d", s->name, setting->alpha,
                (int)INT32_MAX);
    else if (!(setting->dropout >= 0 && setting->dropout < 1))
        th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"lora_dropout\" is %g, but it must be in [0, 1)",
                s->name, setting->dropout);
    return !th_failed(s->ctx);
}

th_status th_peft_config_read(th_context *ctx, const char *operation, const char *path, th_peft_config *config)
{
    static const th_json_limits limits = {.bytes = 4 << 20, .depth = 8};
    const th_json_source s = {ctx, operation, path};
    *config = (th_peft_config){0};
    json_t *root = config->root = th_json_read_file(&s, &limits, &config->bytes);
    if (root && !json_is_object(root))
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: it is not an object", path);
    else if (root && check_choice(&s, root, "peft_type", "LORA") && check_choice(&s, root, "bias", "none") &&
             check_initialization(&s, root) && check_unknown(&s, root) && read_setting(&s, root, &config->setting) &&
             read_pattern(&s, root, "rank_pattern", true, &config->rank_pattern))
        (void)read_pattern(&s, root, "alpha_pattern", false, &config->alpha_pattern);
    return th_error_code(ctx);
}

void th_peft_config_end(th_context *ctx, th_peft_config *config)
{
    th_json_release(ctx, config->root, config->bytes);
    *config = (th_peft_config){0};
}
