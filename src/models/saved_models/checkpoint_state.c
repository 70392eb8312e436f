/* The part of a checkpoint that is not a tensor, as JSON in the header:
 *
 *     {"version": 1,
 *      "precision": "float32",
 *      "random": {"seed": "0x1", "step": 100, "calls": [0, 0, 0], "calls_at_clear": 0},
 *      "numbers": {"position": 25600, "best_loss": 1.5},
 *      "optimizer": {"rule": "adam_w", "learning_rate": 0.001, "options": {"beta1": 0.9, ...},
 *                    "groups": [{"learning_rate_factor": 1.0, "weight_decay": 0.1}]},
 *      "parameters": {"embedding.weight": {"steps": 100, "group": 0, "frozen": false}, ...}}
 *
 * With averages of weights there is also "average": {"decay": 0.999, "warm_up": true}, and each parameter has "averaged",
 * the number of updates of its average.
 * A frozen parameter that is not in the file also has "crc32c", the checksum of its bytes.
 * steps: with local steps (training/shared/outer_step.h) the number of outer steps.
 *
 * Reals are written with enough digits to restore the same bits. Reals that JSON cannot express are the strings "inf",
 * "-inf" and "nan". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/saved_models/checkpoint.h"
#include "tapehead/tape.h"

enum { VERSION = 1 };

/* -- reals -- */

static json_t *real_json(double value)
{
    return isnan(value)   ? json_string("nan")
           : isinf(value) ? json_string(value > 0 ? "inf" : "-inf")
                          : json_real(value);
}

bool th_state_real(const json_t *json, double *value)
{
    const char *word = json_string_value(json);
    if (json_is_number(json))
        *value = json_number_value(json);
    else if (word && strcmp(word, "nan") == 0)
        *value = NAN;
    else if (word && (strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0))
        *value = word[0] == '-' ? -INFINITY : INFINITY;
    else
        return false;
    return true;
}

/* -- writing -- */

/* Sets a member and takes ownership of value, even on failure. */
static void put_member(json_t *object, const char *name, json_t *value, bool *complete)
{
    *complete &= json_object_set_new(object, name, value) == 0;
}

static void append_value(json_t *array, json_t *value, bool *complete)
{
    *complete &= json_array_append_new(array, value) == 0;
}

static json_t *random_json(const th_context *ctx, bool *complete)
{
    const th_random_state state = th_random_state_get(ctx);
    char seed[24];
    snprintf(seed, sizeof seed, "0x%llx", (unsigned long long)state.seed);
    json_t *random = json_object(), *calls = json_array();
    for (int i = 0; i < TH_STREAM_COUNT; i++)
        append_value(calls, json_integer(state.calls[i]), complete);
    put_member(random, "seed", json_string(seed), complete);
    put_member(random, "step", json_integer(state.step), complete);
    put_member(random, "calls", calls, complete);
    put_member(random, "calls_at_clear", json_integer(state.calls_at_clear), complete);
    return random;
}

static json_t *numbers_json(const th_checkpoint *c, bool *complete)
{
    json_t *numbers = json_object();
    for (int i = 0; i < c->n_numbers; i++) {
        const th_checkpoint_number *n = &c->numbers[i];
        put_member(numbers, n->name, n->integer ? json_integer(*n->integer) : real_json(*n->real), complete);
    }
    return numbers;
}

static json_t *optimizer_json(const th_optimizer *o, bool *complete)
{
    if (o == NULL)
        return json_null();
    th_saved_option option[TH_MAX_SAVED_OPTIONS];
    const int n = th_optimizer_saved_options(o, option);
    json_t *optimizer = json_object(), *options = json_object(), *groups = json_array();
    for (int i = 0; i < n; i++)
        if (!option[i].newer || option[i].value != option[i].default_value)
            put_member(options, option[i].name, real_json(option[i].value), complete);
    for (int g = 0; g < o->n_groups; g++) {
        json_t *group = json_object();
        put_member(group, "learning_rate_factor", json_real(o->groups[g].learning_rate_factor), complete);
        put_member(group, "weight_decay", json_real(o->groups[g].weight_decay), complete);
        append_value(groups, group, complete);
    }
    put_member(optimizer, "rule", json_string(th_optimizer_rule_name(o)), complete);
    put_member(optimizer, "learning_rate", json_real(o->learning_rate), complete);
    put_member(optimizer, "options", options, complete);
    put_member(optimizer, "groups", groups, complete);
    return optimizer;
}

static json_t *average_json(const th_weight_average *average, bool *complete)
{
    json_t *options = json_object();
    put_member(options, "decay", json_real(average->options.decay), complete);
    put_member(options, "warm_up", json_boolean(average->options.warm_up), complete);
    return options;
}

/* Returns the parameter's group; -1 if the optimizer does not have the parameter. */
static int group_index(const th_optimizer *o, const th_listed_parameter *p)
{
    return p->optimizer_index >= 0 ? o->parameters[p->optimizer_index].group : -1;
}

uint32_t th_parameter_crc32c(const th_tensor_impl *t)
{
    return th_crc32c(0, th_tensor_data(t), (size_t)th_tensor_numel(t) * th_dtype_size(t->dtype));
}

static json_t *parameters_json(const th_checkpoint *c, const th_parameter_list *list, bool *complete)
{
    const th_optimizer *o = c->optimizer;
    json_t *parameters = json_object();
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        json_t *parameter = json_object();
        put_member(parameter, "steps",
                   json_integer(p->optimizer_index >= 0 ? th_saved_updates(o, p->optimizer_index) : 0), complete);
        put_member(parameter, "group", json_integer(group_index(o, p)), complete);
        put_member(parameter, "frozen", json_boolean(!p->tensor->requires_gradient), complete);
        if (c->average)
            put_member(parameter, "averaged", json_integer(th_average_updates(c->average, p)), complete);
        if (th_is_saved_elsewhere(c, p))
            put_member(parameter, "crc32c", json_integer(th_parameter_crc32c(p->tensor)), complete);
        put_member(parameters, p->name, parameter, complete);
    }
    return parameters;
}

/* Returns the text of a value, which the caller releases with free; NULL if memory runs out. json_dumps would not
 * do: if its buffer cannot grow, jansson 2.14 can lose bytes without an error. */
static char *json_text(const json_t *value)
{
    const size_t bytes = json_dumpb(value, NULL, 0, JSON_COMPACT);
    char *text = bytes > 0 ? malloc(bytes + 1) : NULL;
    if (text == NULL)
        return NULL;
    text[bytes] = 0;
    if (json_dumpb(value, text, bytes, JSON_COMPACT) == bytes)
        return text;
    free(text);
    return NULL;
}

static bool names_are_utf8(const th_checkpoint *c, const th_parameter_list *list)
{
    for (int i = 0; i < c->n_numbers; i++)
        if (!th_is_utf8(c->numbers[i].name))
            return false;
    for (int64_t i = 0; i < list->count; i++)
        if (!th_is_utf8(list->parameter[i].name))
            return false;
    return true;
}

char *th_state_text(const th_checkpoint *c, const th_parameter_list *list, const char *operation)
{
    bool complete = true;
    json_t *state = json_object();
    put_member(state, "version", json_integer(VERSION), &complete);
    put_member(state, "precision", json_string(th_precision_name(th_precision_of(list->ctx))), &complete);
    put_member(state, "random", random_json(list->ctx, &complete), &complete);
    put_member(state, "numbers", numbers_json(c, &complete), &complete);
    put_member(state, "optimizer", optimizer_json(c->optimizer, &complete), &complete);
    if (c->average)
        put_member(state, "average", average_json(c->average, &complete), &complete);
    put_member(state, "parameters", parameters_json(c, list, &complete), &complete);
    char *text = complete ? json_text(state) : NULL;
    json_decref(state);
    if (text == NULL && names_are_utf8(c, list))
        th_fail_memory(list->ctx, operation, sizeof *state);
    else if (text == NULL)
        th_fail(list->ctx, TH_ERROR_ARGUMENT, operation, "the name of a parameter or number is not UTF-8");
    return text;
}

th_status th_check_numbers(const th_checkpoint *c, const char *operation)
{
    th_context *ctx = c->model->ctx;
    if (c->n_numbers < 0 || (c->n_numbers > 0 && c->numbers == NULL))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "there are %d numbers, but their list is NULL", c->n_numbers);
    for (int i = 0; i < c->n_numbers; i++) {
        const th_checkpoint_number *n = &c->numbers[i];
        bool valid = n->name && !n->integer != !n->real;
        for (int j = 0; j < i && valid; j++)
            valid = strcmp(n->name, c->numbers[j].name) != 0;
        if (!valid)
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "number %d needs a unique name and one pointer, to an integer or to a real", i);
    }
    return TH_OK;
}

/* -- reading: every value that is used later is checked here -- */

/* Finds the precision of products. Files from before this setting have float32. */
static bool find_precision(const json_t *state, th_precision *precision)
{
    const json_t *name = json_object_get(state, "precision");
    *precision = TH_PRECISION_FLOAT32;
    for (int p = TH_PRECISION_FLOAT32; json_is_string(name) && p <= TH_PRECISION_INT8; p++)
        if (strcmp(json_string_value(name), th_precision_name((th_precision)p)) == 0) {
            *precision = (th_precision)p;
            return true;
        }
    return name == NULL;
}

static bool check_precision(const th_json_source *s, const json_t *state)
{
    th_precision precision;
    const char *name;
    char quoted[TH_QUOTED];
    if (find_precision(state, &precision))
        return true;
    if (th_json_string(s, state, "precision", &name))
        th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: unknown precision \"%s\"", s->name,
                th_quote(name, quoted));
    return false;
}

static bool check_seed(const th_json_source *s, const json_t *random)
{
    const char *seed;
    char quoted[TH_QUOTED];
    if (!th_json_string(s, random, "seed", &seed))
        return false;
    if (strncmp(seed, "0x", 2) == 0 && seed[2] != 0 && strlen(seed) <= 18 &&
        strspn(seed + 2, "0123456789abcdef") == strlen(seed + 2))
        return true;
    th_fail(s->ctx, TH_ERROR_FILE, s->operation,
            "%.300s: \"seed\" is \"%s\"; it must be 0x and 1 to 16 hexadecimal digits", s->name,
            th_quote(seed, quoted));
    return false;
}

static bool check_calls(const th_json_source *s, const json_t *random)
{
    const json_t *calls = json_object_get(random, "calls");
    if (!json_is_array(calls) || json_array_size(calls) > TH_STREAM_COUNT) {
        th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"calls\" must be a list of at most %d integers", s->name,
                (int)TH_STREAM_COUNT);
        return false;
    }
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        if (json_is_integer(call) && json_integer_value(call) >= 0 && json_integer_value(call) <= UINT32_MAX)
            continue;
        th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"calls\"[%zu] is %lld; it must be an integer, 0 to %lld",
                s->name, i, (long long)json_integer_value(call), (long long)UINT32_MAX);
        return false;
    }
    return true;
}

static bool check_random(const th_json_source *s, const json_t *random)
{
    int64_t number;
    return th_json_integer(s, random, "step", 0, INT64_MAX / 2, &number) &&
           th_json_integer(s, random, "calls_at_clear", 0, UINT32_MAX, &number) && check_seed(s, random) &&
           check_calls(s, random);
}

static bool check_optimizer(const th_json_source *s, const json_t *optimizer)
{
    const char *rule;
    double rate;
    if (json_is_null(optimizer))
        return true;
    if (!th_json_string(s, optimizer, "rule", &rule) || !th_json_number(s, optimizer, "learning_rate", &rate))
        return false;
    const bool valid_rate = rate >= 0 && isfinite(rate);
    if (valid_rate && json_is_object(json_object_get(optimizer, "options")) &&
        json_is_array(json_object_get(optimizer, "groups")))
        return true;
    if (valid_rate)
        th_fail(s->ctx, TH_ERROR_FILE, s->operation,
                "%.300s: the optimizer needs \"options\", an object, and \"groups\", a list", s->name);
    else
        th_fail(s->ctx, TH_ERROR_FILE, s->operation,
                "%.300s: \"learning_rate\" is %g; it must be 0 or more, and finite", s->name, rate);
    return false;
}

/* Files without averages have no such member. */
static bool check_average(const th_json_source *s, const json_t *average)
{
    double decay;
    bool warm_up;
    if (average == NULL)
        return true;
    if (!th_json_number(s, average, "decay", &decay) || !th_json_boolean(s, average, "warm_up", &warm_up))
        return false;
    if (decay >= 0 && decay < 1)
        return true;
    th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: \"decay\" is %g; it must be at least 0 and less than 1",
            s->name, decay);
    return false;
}

static bool check_parameters(const th_json_source *s, json_t *parameters)
{
    const char *name;
    json_t *parameter;
    int64_t number;
    bool frozen;
    bool valid = true;
    json_object_foreach (parameters, name, parameter) {
        valid = valid && th_json_integer(s, parameter, "steps", 0, INT64_MAX / 2, &number) &&
                th_json_integer(s, parameter, "group", -1, INT32_MAX, &number) &&
                th_json_boolean(s, parameter, "frozen", &frozen) &&
                (json_object_get(parameter, "averaged") == NULL ||
                 th_json_integer(s, parameter, "averaged", 0, INT64_MAX / 2, &number)) &&
                (json_object_get(parameter, "crc32c") == NULL ||
                 th_json_integer(s, parameter, "crc32c", 0, UINT32_MAX, &number));
    }
    return valid;
}

json_t *th_state_read(const th_json_source *source, const char *text)
{
    static const th_json_limits limits = {.bytes = TH_SAFETENSORS_MAX_HEADER, .depth = 4, .memory = 256 << 20};
    char name[400];
    snprintf(name, sizeof name, "%.300s: its " TH_STATE_TEXT, source->name);
    const th_json_source s = {source->ctx, source->operation, name};
    if (text == NULL) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: it is not a checkpoint: it has no \"%s\"",
                source->name, TH_STATE_TEXT);
        return NULL;
    }
    json_t *state = th_json_read(&s, text, strlen(text), &limits);
    int64_t version;
    if (state && th_json_integer(&s, state, "version", VERSION, VERSION, &version) && check_precision(&s, state) &&
        check_random(&s, json_object_get(state, "random")) &&
        check_optimizer(&s, json_object_get(state, "optimizer")) &&
        check_average(&s, json_object_get(state, "average")) &&
        check_parameters(&s, json_object_get(state, "parameters")))
        return state;
    json_decref(state);
    return NULL;
}

static const json_t *find_parameter(const json_t *state, const char *name)
{
    return json_object_get(json_object_get(state, "parameters"), name);
}

int64_t th_state_steps(const json_t *state, const char *parameter)
{
    return json_integer_value(json_object_get(find_parameter(state, parameter), "steps"));
}

int64_t th_state_averaged(const json_t *state, const char *parameter)
{
    return json_integer_value(json_object_get(find_parameter(state, parameter), "averaged"));
}

bool th_state_has_only_checksum(const json_t *state, const char *parameter, uint32_t *crc)
{
    const json_t *checksum = json_object_get(find_parameter(state, parameter), "crc32c");
    *crc = (uint32_t)json_integer_value(checksum);
    return checksum != NULL;
}

/* -- restoring -- */

static void restore_random(const json_t *random, th_context *ctx)
{
    const json_t *calls = json_object_get(random, "calls");
    th_random_state state = {
        .seed = strtoull(json_string_value(json_object_get(random, "seed")), NULL, 16),
        .step = json_integer_value(json_object_get(random, "step")),
        .calls_at_clear = (uint32_t)json_integer_value(json_object_get(random, "calls_at_clear")),
    };
    for (size_t i = 0; i < TH_STREAM_COUNT; i++) /* a file from before a stream existed has no calls for it */
        state.calls[i] = (uint32_t)json_integer_value(json_array_get(calls, i));
    th_random_state_set(ctx, &state);
}

th_status th_state_restore(const json_t *state, const th_checkpoint *c, const th_parameter_list *list)
{
    th_precision precision;
    (void)find_precision(state, &precision);
    if (c->optimizer)
        th_optimizer_forget_loop(c->optimizer); /* (this restores random numbers of the loop) */
    restore_random(json_object_get(state, "random"), list->ctx);
    for (int i = 0; i < c->n_numbers; i++) {
        const json_t *number = json_object_get(json_object_get(state, "numbers"), c->numbers[i].name);
        if (c->numbers[i].integer)
            *c->numbers[i].integer = json_integer_value(number);
        else
            (void)th_state_real(number, c->numbers[i].real);
    }
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        p->tensor->requires_gradient = th_is_floating(p->tensor->dtype) &&
                                       json_is_false(json_object_get(find_parameter(state, p->name), "frozen"));
        if (p->optimizer_index >= 0)
            th_optimizer_set_steps(c->optimizer, p->optimizer_index, th_state_steps(state, p->name));
    }
    if (c->optimizer)
        c->optimizer->learning_rate =
            json_number_value(json_object_get(json_object_get(state, "optimizer"), "learning_rate"));
    return th_set_precision(list->ctx, precision);
}
