/* Saves a checkpoint: weights, moments, state, checksums. */
#include <stdlib.h>
#include <string.h>

#include "models/core.h"
#include "models/store/checkpoint.h"
#include "models/store/safetensors_write.h"

static const char operation[] = "checkpoint_save";

/* Returns an error if gradients wait for a step: they would be lost. Gradients of a rejected step are allowed,
 * because the program repeats it. */
static th_status check_gradients(const th_parameter_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (p->in_optimizer >= 0 && th_gradient_buffer_started(th_gradient_buffer_of(p->tensor)))
            return th_fail(list->ctx, TH_ERROR_STATE, operation,
                           "%s has a gradient that no step has used yet: save a checkpoint between steps", p->name);
    }
    return TH_OK;
}

static bool has_moments(const th_optimizer *o, const th_listed_parameter *p)
{
    return p->in_optimizer >= 0 && o->parameters[p->in_optimizer].steps > 0;
}

typedef struct saving {
    const th_checkpoint *checkpoint;
    const th_parameter_list *list;
    th_to_store *tensor; /* [count] */
    int64_t count;
    char (*moment_name)[TH_MOMENT_NAME_SIZE]; /* [n_moments] */
    int64_t n_moments;
} saving;

/* Lists the weights, then the moments of parameters that have taken steps. */
static void fill(const saving *s)
{
    const th_optimizer *o = s->checkpoint->optimizer;
    th_to_store *next = s->tensor;
    for (int64_t i = 0; i < s->list->count; i++)
        *next++ =
            (th_to_store){.name = s->list->parameter[i].name, .array = th_tensor_array(s->list->parameter[i].tensor)};
    char(*name)[TH_MOMENT_NAME_SIZE] = s->moment_name;
    for (int64_t i = 0; i < s->list->count; i++) {
        const th_listed_parameter *p = &s->list->parameter[i];
        for (int m = 0; o && has_moments(o, p) && m < o->n_moments; m++, name++) {
            snprintf(*name, sizeof *name, TH_MOMENT_NAME, th_optimizer_moment_name(o, m), p->name);
            *next++ = (th_to_store){.name = *name, .array = th_optimizer_moment(o, p->in_optimizer, m)};
        }
    }
}

static th_status store(const saving *s, const char *path)
{
    char *state = th_state_text(s->checkpoint, s->list, operation);
    if (state == NULL)
        return th_error_code(s->list->ctx);
    const th_named_text texts[] = {
        {"format", "pt"}, {TH_STATE_TEXT, state}, {TH_CONFIGURATION_TEXT, s->checkpoint->configuration}};
    const th_status status = th_store(&(th_storing){s->list->ctx, operation, path, s->tensor, s->count, texts,
                                                    s->checkpoint->configuration ? 3 : 2, TH_CHECKSUMS_NAME});
    free(state);
    return status;
}

static th_status save(const th_checkpoint *c, const th_parameter_list *list, const char *path)
{
    th_context *ctx = list->ctx;
    saving s = {.checkpoint = c, .list = list};
    for (int64_t i = 0; c->optimizer && i < list->count; i++)
        s.n_moments += has_moments(c->optimizer, &list->parameter[i]) ? c->optimizer->n_moments : 0;
    s.count = list->count + s.n_moments;
    const size_t tensors = (size_t)(s.count + 1) * sizeof *s.tensor;
    const size_t names = (size_t)(s.n_moments + 1) * sizeof *s.moment_name;
    s.tensor = th_allocate(ctx, tensors);
    s.moment_name = th_allocate(ctx, names);
    th_status status = s.tensor && s.moment_name ? TH_OK : th_fail_memory(ctx, operation, tensors + names);
    if (status == TH_OK) {
        fill(&s);
        status = store(&s, path);
    }
    th_release(ctx, s.moment_name, names);
    th_release(ctx, s.tensor, tensors);
    return status;
}

th_status th_checkpoint_save(const char *path, const th_checkpoint *checkpoint)
{
    const th_checkpoint c = checkpoint ? *checkpoint : (th_checkpoint){0};
    th_parameter_list list;
    th_status status = th_parameter_list_make(&list, c.model, c.optimizer, path, operation);
    if (status == TH_OK)
        status = th_check_numbers(&c, operation);
    if (status == TH_OK)
        status = check_gradients(&list);
    if (status == TH_OK)
        status = save(&c, &list, path);
    th_parameter_list_end(&list);
    return status;
}
