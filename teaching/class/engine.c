/* The engine of the class's page (engine.h): creating a model, training it, measuring it. follow.c follows one number,
 * model.c computes attention with the page's choices. */
#include "engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "model.h"
#include "sequence.h"
#include "wrong_rules.h"

/* What class_new says, before there is an engine. */
static char problem_of_new[512];

/* -- errors -- */

EMSCRIPTEN_KEEPALIVE const char *class_error(const class_engine *e)
{
    if (e == NULL)
        return problem_of_new;
    return th_error_code(e->ctx) ? th_error_message(e->ctx) : e->problem;
}

/* -- creating -- */

/* Returns what is wrong with the arguments of class_new; NULL if nothing is. */
static const char *wrong_argument(double seed, const copy_settings *s, int batch, int steps, double rate, int mask)
{
    if (!(seed >= 0 && seed <= 0x1p53 && seed == floor(seed)))
        return "the seed must be a whole number from 0 to 2^53";
    if (s->length < 1 || s->length > COPY_MAX_LENGTH)
        return "the length must be 1 to 120";
    if (s->vocab < 2 || s->vocab > (int64_t)strlen(copy_letters))
        return "the number of symbols must be 2 to 62";
    if (s->width < 1 || s->width > 4096)
        return "the width must be 1 to 4096";
    if (s->heads < 1 || s->heads > 32)
        return "the number of heads must be 1 to 32";
    if (s->width % s->heads)
        return "the number of heads must divide the width";
    if (!(s->dropout >= 0 && s->dropout < 1))
        return "the dropout must be at least 0 and less than 1";
    if (batch < 1 || batch > 4096)
        return "the batch must have 1 to 4096 sequences";
    if (steps < 0 || steps > 10000000)
        return "the number of steps must be 0 to 10,000,000";
    if (!(rate > 0 && rate <= 1e30))
        return "the rate must be more than 0";
    return mask < 0 || mask >= CLASS_MASKS ? "the mask must be 0, 1 or 2" : NULL;
}

/* Creates what computes, in the order of copy_task: its random numbers depend on it. */
static bool create(class_engine *e, const copy_settings *s)
{
    th_context *ctx = e->ctx;
    e->model = (copy_model *)copy_model_new(ctx, s);
    if (e->model)
        class_replace_forward(e);
    e->adam = th_adam_new(e->model ? &e->model->base : NULL, &(th_adam_options){.learning_rate = e->rate, .shards = 1});
    e->separator = th_full(ctx, TH_INT32, TH_SHAPE(1, 1), (double)s->vocab);
    th_tensor_free(th_random_integers(ctx, TH_INT32, TH_SHAPE(1, s->length), 0, s->vocab)); /* copy_task's sample */
    if (th_error_code(ctx))
        return false;
    e->count = th_module_count(&e->model->base);
    const size_t tokens = 2 * (size_t)s->length, weights = (size_t)s->heads * tokens * tokens;
    e->before = calloc((size_t)e->count, sizeof *e->before);
    e->gradients = calloc((size_t)e->count, sizeof *e->gradients);
    e->numbers = calloc((size_t)e->count, sizeof *e->numbers);
    e->weights = calloc(weights, sizeof *e->weights);
    return e->before && e->gradients && e->numbers && e->weights;
}

EMSCRIPTEN_KEEPALIVE class_engine *class_new(double seed, int length, int symbols, int width, int heads, int batch,
                                             int steps, double rate, double dropout, int mask)
{
    const copy_settings settings = {
        .length = length, .vocab = symbols, .width = width, .heads = heads, .dropout = dropout};
    const char *wrong = wrong_argument(seed, &settings, batch, steps, rate, mask);
    snprintf(problem_of_new, sizeof problem_of_new, "%s", wrong ? wrong : "");
    class_engine *e = wrong ? NULL : calloc(1, sizeof *e);
    if (e == NULL) {
        if (!wrong)
            snprintf(problem_of_new, sizeof problem_of_new, "the memory does not suffice for an engine");
        return NULL;
    }
    e->ctx = th_context_new(&(th_context_options){.seed = (uint64_t)seed, .threads = 1});
    e->batch = batch;
    e->steps = steps;
    e->rate = rate;
    e->dropout = dropout;
    e->mask = mask;
    if (e->ctx == NULL || !create(e, &settings)) {
        const bool said = e->ctx && th_error_code(e->ctx);
        snprintf(problem_of_new, sizeof problem_of_new, "%s",
                 said ? th_error_message(e->ctx) : "the memory does not suffice for this model");
        class_free(e);
        return NULL;
    }
    return e;
}

EMSCRIPTEN_KEEPALIVE void class_free(class_engine *e)
{
    if (e == NULL)
        return;
    th_context_free(e->ctx);
    free(e->before);
    free(e->gradients);
    free(e->numbers);
    free(e->weights);
    free(e->tape);
    text_free(&e->parameters);
    text_free(&e->path);
    text_free(&e->report);
    free(e);
}

EMSCRIPTEN_KEEPALIVE const char *class_build(const class_engine *e)
{
    return th_build_info(e->ctx);
}

/* -- a step -- */

/* Copies all parameters to `before`. */
static bool copy_values(class_engine *e)
{
    int64_t at = 0;
    for (th_parameter_iterator p = th_module_parameters(&e->model->base); th_parameter_next(&p);
         at += th_numel(p.tensor))
        if (th_copy_out(p.tensor, e->before + at, (size_t)th_numel(p.tensor) * sizeof *e->before))
            return false;
    return true;
}

/* Copies all gradients to `gradients`. A parameter that no gradient reached has zeros. */
static bool copy_gradients(class_engine *e)
{
    int64_t at = 0;
    for (th_parameter_iterator p = th_module_parameters(&e->model->base); th_parameter_next(&p);
         at += th_numel(p.tensor)) {
        const size_t bytes = (size_t)th_numel(p.tensor) * sizeof *e->gradients;
        th_tensor *gradient = th_gradient(p.tensor);
        if (gradient == NULL)
            memset(e->gradients + at, 0, bytes);
        else if (th_copy_out(gradient, e->gradients + at, bytes))
            return false;
    }
    return true;
}

static double rate_at(const class_engine *e, int64_t step)
{
    enum { WARM_UP = 20 };
    if (e->steps == 0)
        return step < WARM_UP ? e->rate * (double)(step + 1) / WARM_UP : e->rate;
    return th_schedule_cosine(step, &(th_cosine_schedule){e->rate, WARM_UP, e->steps, 0});
}

/* Runs forward and backward on random sequences. */
static bool differentiate(class_engine *e, th_shard *shard)
{
    const copy_settings *s = &e->model->settings;
    th_tensor *x = th_random_integers(e->ctx, TH_INT32, TH_SHAPE(e->batch, s->length), 0, s->vocab);
    th_tensor *loss = copy_loss(&e->model->base, x, e->separator, NULL);
    if (th_backward(loss, NULL))
        return false;
    shard->loss = th_item(loss);
    const bool copied = copy_gradients(e);
    th_tensor_free(x);
    th_tape_clear(e->ctx);
    return copied;
}

EMSCRIPTEN_KEEPALIVE double class_step(class_engine *e)
{
    if (!begin_call(e) || !copy_values(e) || th_optimizer_set_learning_rate(e->adam, rate_at(e, th_step(e->ctx))))
        return NAN;
    for (th_shard shard = th_optimizer_shards(e->adam); th_shard_next(&shard);)
        if (!differentiate(e, &shard))
            return NAN;
    return th_optimizer_step(e->adam) ? NAN : th_optimizer_loss(e->adam);
}

EMSCRIPTEN_KEEPALIVE int class_steps(const class_engine *e)
{
    return (int)th_step(e->ctx);
}

/* -- choices -- */

EMSCRIPTEN_KEEPALIVE double class_set_rate(class_engine *e, double rate)
{
    if (!begin_call(e))
        return NAN;
    if (!(rate > 0 && rate <= 1e30))
        return refuse_call(e, "the rate must be more than 0, it is %g", rate);
    return e->rate = rate;
}

EMSCRIPTEN_KEEPALIVE double class_rate(const class_engine *e)
{
    return rate_at(e, th_step(e->ctx));
}

EMSCRIPTEN_KEEPALIVE double class_set_dropout(class_engine *e, double dropout)
{
    if (!begin_call(e))
        return NAN;
    if (!(dropout >= 0 && dropout < 1))
        return refuse_call(e, "the dropout must be at least 0 and less than 1, it is %g", dropout);
    return e->dropout = dropout;
}

EMSCRIPTEN_KEEPALIVE double class_set_mask(class_engine *e, int mask)
{
    if (!begin_call(e))
        return NAN;
    if (mask < 0 || mask >= CLASS_MASKS)
        return refuse_call(e, "the mask must be 0, 1 or 2, it is %d", mask);
    return e->mask = mask;
}

EMSCRIPTEN_KEEPALIVE int class_rules(void)
{
    return class_wrong_rule_count;
}

EMSCRIPTEN_KEEPALIVE const char *class_rule(int rule)
{
    static const char *const operations[] = {"scores", "softmax", "mix", "residual"};
    static class_text text;
    if (rule < 0 || rule >= class_wrong_rule_count)
        return NULL;
    const class_wrong_rule *r = &class_wrong_rules[rule];
    text_clear(&text);
    text_add(&text, "{\"name\":\"%s\",\"says\":\"%s\",\"operation\":\"%s\",\"right\":\"%s\",\"wrong\":\"%s\"}", r->name,
             r->says, operations[r->operation], r->right, r->wrong);
    return text.data;
}

static bool is_rule(class_engine *e, int rule)
{
    if (rule >= 0 && rule < class_wrong_rule_count)
        return true;
    (void)refuse_call(e, "there are rules 0 to %d, but none with number %d", class_wrong_rule_count - 1, rule);
    return false;
}

EMSCRIPTEN_KEEPALIVE double class_set_rule(class_engine *e, int rule)
{
    if (!begin_call(e) || !is_rule(e, rule))
        return NAN;
    return e->rule = rule;
}

/* Adds the report on one operation. Returns false if the check could not run. */
static bool check_operation(class_engine *e, const th_op *op)
{
    th_gradient_report report;
    if (th_check_op(e->ctx, op, NULL, &report) != TH_OK && th_error_code(e->ctx))
        return false;
    if (report.ok)
        text_add(&e->report,
                 "gradient of %s is right: all checks pass, and %lld derivatives agree with difference "
                 "quotients\n",
                 op->name, (long long)report.checked);
    else
        text_add(&e->report, "%s", report.text);
    return true;
}

EMSCRIPTEN_KEEPALIVE const char *class_check(class_engine *e, int rule)
{
    if (!begin_call(e) || !is_rule(e, rule))
        return NULL;
    text_clear(&e->report);
    for (int i = 0; i < CLASS_OPERATIONS; i++) {
        const bool checked = rule == 0 || class_wrong_rules[rule].operation == (class_operation)i;
        if (checked && !check_operation(e, class_op((class_operation)i, rule)))
            return NULL;
    }
    return e->report.data;
}

/* -- measuring -- */

/* Returns a share of fresh sequences. Another generator draws them, so that the context's numbers stay the same. */
static double measure(class_engine *e, int sequences, bool whole)
{
    enum { PART = 100 };
    if (!begin_call(e))
        return NAN;
    if (sequences < 1 || sequences > 100000)
        return refuse_call(e, "the number of sequences must be 1 to 100,000, it is %d", sequences);
    uint64_t state = 0;
    double right = 0;
    for (int done = 0; done < sequences; done += PART) {
        const int count = sequences - done < PART ? sequences - done : PART;
        th_tensor *x = random_sequences(e, count, &state);
        right += count * accuracy(x, decode(&e->model->base, x, e->separator), whole);
        th_tensor_free(x);
        th_tape_clear(e->ctx);
    }
    return th_error_code(e->ctx) ? NAN : right / sequences;
}

EMSCRIPTEN_KEEPALIVE double class_accuracy(class_engine *e, int sequences)
{
    return measure(e, sequences, false);
}

EMSCRIPTEN_KEEPALIVE double class_sequence_accuracy(class_engine *e, int sequences)
{
    return measure(e, sequences, true);
}

EMSCRIPTEN_KEEPALIVE double class_crc32c(const class_engine *e)
{
    return (double)th_module_crc32c(&e->model->base);
}

/* -- parameters -- */

static double norm(const float *x, const float *minus, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = (double)x[i] - (minus ? (double)minus[i] : 0);
        sum += difference * difference;
    }
    return sqrt(sum);
}

EMSCRIPTEN_KEEPALIVE const char *class_parameters(class_engine *e)
{
    int64_t at = 0;
    class_text *text = &e->parameters;
    if (!begin_call(e))
        return NULL;
    text_clear(text);
    for (th_parameter_iterator p = th_module_parameters(&e->model->base); th_parameter_next(&p);) {
        const int64_t n = th_numel(p.tensor);
        if (th_copy_out(p.tensor, e->numbers, (size_t)n * sizeof *e->numbers))
            return NULL;
        const th_shape shape = th_shape_of(p.tensor);
        text_add(text, "%s{\"name\":\"%s\",\"shape\":[", at ? "," : "[", p.name);
        for (int d = 0; d < shape.ndim; d++)
            text_add(text, "%s%lld", d ? "," : "", (long long)shape.size[d]);
        text_add(text, "],\"count\":%lld,\"norm\":", (long long)n);
        text_add_number(text, norm(e->numbers, NULL, n));
        text_add(text, ",\"gradient\":");
        text_add_number(text, norm(e->gradients + at, NULL, n));
        text_add(text, ",\"update\":");
        text_add_number(text, th_step(e->ctx) ? norm(e->numbers, e->before + at, n) : 0);
        text_add(text, "}");
        at += n;
    }
    text_add(text, "]");
    return text->data;
}

/* Returns the offset of a parameter among all; -1 if it does not exist. */
static int64_t offset_of(const class_engine *e, const th_tensor *parameter)
{
    int64_t at = 0;
    for (th_parameter_iterator p = th_module_parameters(&e->model->base); th_parameter_next(&p);
         at += th_numel(p.tensor))
        if (p.tensor == parameter)
            return at;
    return -1;
}

EMSCRIPTEN_KEEPALIVE const float *class_values(class_engine *e, const char *parameter)
{
    if (!begin_call(e))
        return NULL;
    th_tensor *t = th_module_find_parameter(&e->model->base, parameter);
    if (t == NULL)
        (void)refuse_call(e, "the model has no parameter %.200s", parameter);
    if (t == NULL || th_copy_out(t, e->numbers, (size_t)th_numel(t) * sizeof *e->numbers))
        return NULL;
    return e->numbers;
}

EMSCRIPTEN_KEEPALIVE const float *class_gradients(class_engine *e, const char *parameter)
{
    if (!begin_call(e))
        return NULL;
    const th_tensor *t = th_module_find_parameter(&e->model->base, parameter);
    if (t == NULL)
        (void)refuse_call(e, "the model has no parameter %.200s", parameter);
    return t ? e->gradients + offset_of(e, t) : NULL;
}

/* -- one sequence -- */

EMSCRIPTEN_KEEPALIVE const char *class_write(class_engine *e, const char *sequence)
{
    th_tensor *x = begin_call(e) ? typed_sequence(e, sequence) : NULL;
    if (x == NULL)
        return NULL;
    spell(decode(&e->model->base, x, e->separator), e->model->settings.vocab, e->written);
    th_tensor_free(x);
    th_tape_clear(e->ctx);
    return e->written[0] ? e->written : NULL;
}

EMSCRIPTEN_KEEPALIVE const float *class_attention(class_engine *e, const char *sequence)
{
    const copy_settings *s = &e->model->settings;
    th_tensor *x = begin_call(e) ? typed_sequence(e, sequence) : NULL;
    if (x == NULL)
        return NULL;
    th_set_training(e->ctx, false);
    th_no_grad_begin(e->ctx);
    th_tensor *y = decode(&e->model->base, x, e->separator);
    class_heads a = class_project(e, embed(e->model, join_tokens(x, e->separator, y, s->length - 1)));
    class_mix_heads(e, &a);
    const size_t count = (size_t)(s->heads * 4 * s->length * s->length);
    const bool done = th_copy_out(a.weights, e->weights, count * sizeof *e->weights) == TH_OK;
    th_no_grad_end(e->ctx);
    th_set_training(e->ctx, true);
    th_tensor_free(x);
    th_tape_clear(e->ctx);
    return done ? e->weights : NULL;
}
