/* Reads the fields of config.json that a family's table lists. Every field that changes what the model computes is
 * honored or rejected. */
#include "models/families/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "models/core/context.h"

const th_json_limits th_config_limits = {.bytes = 1 << 20, .depth = 8, .memory = 16 << 20};

/* -- one field -- */

bool th_config_is_given(const th_config *c, const char *key)
{
    const json_t *member = json_object_get(c->object, key);
    return member && !json_is_null(member);
}

void th_config_refuse(const th_config *c, const char *sentence, const char *detail)
{
    char quoted[TH_QUOTED];
    th_config_fail(c, sentence, th_quote(detail, quoted));
}

void th_config_fail(const th_config *c, const char *sentence, ...)
{
    char reason[400];
    va_list values;
    va_start(values, sentence);
    vsnprintf(reason, sizeof reason, sentence, values);
    va_end(values);
    th_fail(c->source.ctx, TH_ERROR_FILE, c->source.operation, "%.300s: %s", c->source.name, reason);
}

static int64_t integer_in(const th_config *c, const char *key, int64_t lowest, int64_t highest, int64_t default_value)
{
    int64_t value;
    return th_config_is_given(c, key) && th_json_integer(&c->source, c->object, key, lowest, highest, &value)
               ? value
               : default_value;
}

int64_t th_config_integer(const th_config *c, const char *key, int64_t lowest, int64_t default_value)
{
    return integer_in(c, key, lowest, TH_CONFIG_MAX_SIZE, default_value);
}

double th_config_number(const th_config *c, const char *key, double default_value)
{
    double value = default_value;
    if (th_config_is_given(c, key))
        th_json_number(&c->source, c->object, key, &value);
    return value;
}

double th_config_number_in(const th_config *c, const char *key, th_range range, double default_value)
{
    const double value = th_config_number(c, key, default_value);
    if (th_config_is_given(c, key) && !th_in_range(range, value))
        th_config_fail(c, "\"%s\" is %g; it must be in [%g, %g]", key, value, range.low, range.high);
    return value;
}

static double read_rate(const th_config *c, const char *key, double default_value)
{
    const double value = th_config_number(c, key, default_value);
    if (!(value >= 0 && value < 1))
        th_config_fail(c, "\"%s\" is %g; it must be at least 0 and less than 1", key, value);
    return value;
}

bool th_config_flag(const th_config *c, const char *key, bool default_value)
{
    bool value = default_value;
    if (th_config_is_given(c, key))
        th_json_boolean(&c->source, c->object, key, &value);
    return value;
}

const char *th_config_string(const th_config *c, const char *key, const char *default_value)
{
    const char *value = default_value;
    if (th_config_is_given(c, key))
        th_json_string(&c->source, c->object, key, &value);
    return value;
}

const json_t *th_config_object(const th_config *c, const char *key)
{
    const json_t *member = json_object_get(c->object, key);
    if (th_config_is_given(c, key) && !json_is_object(member))
        th_config_refuse(c, "\"%s\" is neither null nor an object", key);
    return json_object_size(member) > 0 ? member : NULL;
}

/* -- activations -- */

/* If an activation has several names, the first one is written. */
static const struct {
    const char *name;
    th_activation activation;
} activations[] = {
    {"gelu_new", TH_GELU_TANH},
    {"gelu_pytorch_tanh", TH_GELU_TANH},
    {"gelu_python_tanh", TH_GELU_TANH},
    {"gelu_fast", TH_GELU_TANH},
    {"gelu", TH_GELU},
    {"gelu_python", TH_GELU},
    {"relu", TH_RELU},
    {"silu", TH_SILU},
    {"swish", TH_SILU},
    {"relu2", TH_RELU_SQUARED},
    {"tanh", TH_TANH},
};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

const char *th_activation_name(th_activation activation, const char *usual)
{
    th_activation other;
    if (th_activation_find(usual, &other) && other == activation)
        return usual;
    for (int i = 0; i < ACTIVATIONS; i++)
        if (activations[i].activation == activation)
            return activations[i].name;
    return NULL;
}

bool th_activation_find(const char *name, th_activation *activation)
{
    for (int i = 0; i < ACTIVATIONS; i++)
        if (strcmp(activations[i].name, name) == 0) {
            *activation = activations[i].activation;
            return true;
        }
    return false;
}

static th_activation read_activation(const th_config *c, const char *key, const char *default_value)
{
    th_activation value = TH_GELU_TANH;
    const char *name = th_config_string(c, key, default_value);
    if (!th_activation_find(name, &value))
        th_config_refuse(c, "activation \"%s\" is not supported; gelu_new, gelu, relu, relu2, silu and tanh are", name);
    return value;
}

/* -- a table -- */

/* Returns the key under which the file has the field. Two keys with different values are an error. */
static const char *key_in_file(const th_config *c, const th_family_field *f)
{
    if (f->other == NULL || !th_config_is_given(c, f->other))
        return f->key;
    if (!th_config_is_given(c, f->key))
        return f->other;
    const int64_t value = integer_in(c, f->key, 1, INT32_MAX, 0);
    if (integer_in(c, f->other, 1, INT32_MAX, value) != value)
        th_config_refuse(c, "\"%s\" contradicts its other name in the same file", f->other);
    return f->key;
}

static bool is_layer_count(const th_family_field *f)
{
    return f->member == TH_MEMBER(layers);
}

/* Reads a field that can have one value only. */
static void read_only_value(const th_config *c, const th_family_field *f)
{
    if (f->kind == TH_FIELD_NULL && th_config_is_given(c, f->key))
        th_config_refuse(c, "\"%s\" is given, which is not supported", f->key);
    if (f->kind == TH_FIELD_NAME && strcmp(th_config_string(c, f->key, f->name), f->name) != 0)
        th_config_refuse(c, "\"%s\" has a value that is not supported", f->key);
    if (f->kind == TH_FIELD_FIXED && th_config_number(c, f->key, f->default_value) != f->default_value)
        th_config_fail(c, "\"%s\" is not %g, which is not supported", f->key, f->default_value);
    if (f->kind == TH_FIELD_TRUE && !th_config_flag(c, f->key, true))
        th_config_refuse(c, "\"%s\" is false, which is not supported", f->key);
    if (f->kind == TH_FIELD_FALSE && th_config_flag(c, f->key, false))
        th_config_refuse(c, "\"%s\" is true, which is not supported", f->key);
}

/* Reads a field into its member, whose type depends on the kind. The sizes of the model are read before. */
static void read_field(const th_config *c, const th_family_field *f, const char *key, th_language_model_options *o)
{
    void *member = (char *)o + f->member;
    switch (f->kind) {
    case TH_FIELD_SIZE:
        *(int64_t *)member = integer_in(c, key, 1, is_layer_count(f) ? TH_CONFIG_MAX_LAYERS : TH_CONFIG_MAX_SIZE,
                                        (int64_t)f->default_value);
        break;
    case TH_FIELD_NUMBER:
        *(double *)member = th_config_number_in(c, key, f->range, f->default_value);
        break;
    case TH_FIELD_RATE:
        *(double *)member = read_rate(c, key, f->default_value);
        break;
    case TH_FIELD_FLAG:
        *(bool *)member = th_config_flag(c, key, f->default_value != 0);
        break;
    case TH_FIELD_NOT:
        *(bool *)member = !th_config_flag(c, key, f->default_value != 0);
        break;
    case TH_FIELD_ACTIVATION:
        *(th_activation *)member = read_activation(c, key, f->name);
        break;
    case TH_FIELD_INVERSE_ROOT:
        *(double *)member = 1 / sqrt((double)integer_in(c, key, 1, TH_CONFIG_MAX_SIZE, (int64_t)f->default_value));
        break;
    case TH_FIELD_ROOT_OF_LAYERS:
        *(double *)member = th_config_number_in(c, key, f->range, f->default_value) / sqrt((double)o->layers);
        break;
    case TH_FIELD_PART_OF_WIDTH:
        *(double *)member =
            (double)o->width / (double)integer_in(c, key, 1, TH_CONFIG_MAX_SIZE, (int64_t)f->default_value);
        break;
    case TH_FIELD_AFTER_TOKEN:
        *(int64_t *)member = integer_in(c, key, 0, TH_CONFIG_MAX_SIZE, (int64_t)f->default_value) + 1;
        break;
    case TH_FIELD_SCALED:
        *(double *)member = th_config_flag(c, key, true) ? 0 : 1;
        break;
    case TH_FIELD_FALSE:
    case TH_FIELD_TRUE:
    case TH_FIELD_NAME:
    case TH_FIELD_FIXED:
    case TH_FIELD_NULL:
        read_only_value(c, f);
        break;
    }
}

/* Whether the file has a null that means none. */
static bool may_be_null(const th_config *c, const th_family_field *f)
{
    return f->optional && json_is_null(json_object_get(c->object, f->key));
}

void th_fields_read(const th_config *c, const th_family *family, th_language_model_options *options)
{
    for (const th_family_field *f = family->fields; f->key; f++) {
        th_family_field field = *f;
        if (may_be_null(c, f))
            field.default_value = 0;
        read_field(c, &field, key_in_file(c, f), options);
    }
}
