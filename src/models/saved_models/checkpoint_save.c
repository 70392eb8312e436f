/* Saves a checkpoint: weights, moments, state, checksums. If the processes of a group share the moments, rank 0 writes
 * the file, and the others send it their parts. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/saved_models/checkpoint.h"
#include "models/saved_models/checkpoint_gather.h"
#include "models/saved_models/safetensors_write.h"

static const char operation[] = "checkpoint_save";

typedef struct saving {
    const th_checkpoint *checkpoint;
    const char *path;
    th_group *group; /* whose processes share the moments; NULL: this process has all of them */
    bool writes;     /* this process writes the file */
    th_parameter_list list;
    th_safetensors_item *tensor; /* [count] */
    int64_t count, capacity;
    th_saved_moment *moment; /* [n_moments] */
    int64_t n_moments;
    char (*average_name)[TH_AVERAGE_NAME_SIZE]; /* [n_averages]; NULL without averages */
    int64_t n_averages;
    char *state;
    th_named_text text[3];
    th_safetensors_contents contents;
    th_gathering gathering;
    th_safetensors_writer file; /* open if `opened` */
    bool opened;
} saving;

/* -- checks -- */

/* Returns the group whose processes share the moments; NULL if this process has all of them. */
static th_group *sharing_group(const th_optimizer *o)
{
    const bool shared = o && !o->freed && o->shards.processes > 1 && !th_is_shapes_only(o->ctx);
    return shared && !o->group->freed ? o->group : NULL;
}

/* Returns an error if gradients wait for a step: they would be lost. Gradients of a rejected step are allowed,
 * because the program repeats it. */
static th_status check_gradients(const saving *s)
{
    const th_parameter_list *list = &s->list;
    const th_optimizer *o = s->checkpoint->optimizer;
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (p->optimizer_index >= 0 && th_gradient_buffer_is_started(th_gradient_buffer_of(p->tensor)))
            return th_fail(list->ctx, TH_ERROR_STATE, operation,
                           "%s has a gradient that no step has used yet: save a checkpoint between steps", p->name);
    }
    if (o && th_optimizer_in_loop(o))
        return th_fail(list->ctx, TH_ERROR_STATE, operation,
                       "no step has completed the loop over shards yet: save a checkpoint between steps");
    if (th_weight_average_is_swapped(s->checkpoint->average))
        return th_fail(list->ctx, TH_ERROR_STATE, operation,
                       "the model has the averages: call th_weight_average_swap before you save a checkpoint");
    if (o && o->local_steps > 0)
        return th_fail(list->ctx, TH_ERROR_STATE, operation,
                       "%d of %d local steps have been taken: save a checkpoint right after an outer step",
                       o->local_steps, o->diloco.local_steps);
    return TH_OK;
}

/* Checks the arguments, and lists the parameters. In the group, path and numbers of rank 0 count. */
static th_status check_arguments(saving *s)
{
    const th_checkpoint *c = s->checkpoint;
    if (s->group && (c->model == NULL || c->model->ctx != s->group->ctx))
        return th_fail(s->group->ctx, TH_ERROR_ARGUMENT, operation, "the model %s",
                       c->model ? "belongs to another context than the optimizer" : "is NULL");
    th_status status =
        th_parameter_list_make_for_file(&s->list, c->model, c->optimizer, s->writes ? s->path : "", operation);
    if (status == TH_OK && c->optimizer && c->optimizer->shards.processes > 1 && s->group == NULL)
        return th_fail(s->list.ctx, TH_ERROR_STATE, operation, "the group of %s has been freed",
                       c->optimizer->rule->name);
    if (status == TH_OK)
        status = th_averages_find(&s->list, c->average, operation);
    if (status == TH_OK && s->writes)
        status = th_check_numbers(c, operation);
    return status == TH_OK ? check_gradients(s) : status;
}

/* -- what the file contains -- */

static bool has_moments(const th_optimizer *o, const th_listed_parameter *p)
{
    return p->optimizer_index >= 0 && th_saved_updates(o, p->optimizer_index) > 0;
}

/* Lists the weights, then the moments of parameters that have taken steps, then the averages. Sets the number of
 * tensors. */
static void fill_lists(saving *s)
{
    const th_optimizer *o = s->checkpoint->optimizer;
    th_safetensors_item *next = s->tensor;
    for (int64_t i = 0; i < s->list.count; i++) {
        const th_listed_parameter *p = &s->list.parameter[i];
        if (!th_is_saved_elsewhere(s->checkpoint, p))
            *next++ = (th_safetensors_item){.name = p->name, .array = th_tensor_array(p->tensor)};
    }
    th_saved_moment *moment = s->moment;
    for (int64_t i = 0; i < s->list.count; i++) {
        const th_listed_parameter *p = &s->list.parameter[i];
        for (int k = 0; o && has_moments(o, p) && k < th_saved_tensor_count(o, p->optimizer_index); k++, moment++) {
            char name[TH_SAVED_NAME_SIZE];
            th_saved_tensor_name(o, p->optimizer_index, k, name);
            *moment = (th_saved_moment){.parameter = p->optimizer_index, .tensor = k};
            snprintf(moment->name, sizeof moment->name, TH_MOMENT_NAME, name, p->name);
            *next++ = (th_safetensors_item){
                .name = moment->name, .array = th_saved_tensor(o, p->optimizer_index, k), .source = moment};
        }
    }
    for (int64_t i = 0, k = 0; i < s->list.count; i++) {
        const th_listed_parameter *p = &s->list.parameter[i];
        if (th_average_updates(s->checkpoint->average, p) == 0)
            continue;
        th_average_name(p, s->average_name[k]);
        *next++ =
            (th_safetensors_item){.name = s->average_name[k++], .array = th_average_array(s->checkpoint->average, p)};
    }
    s->count = next - s->tensor;
}

/* Lists the tensors in the order of the file. */
static th_status list_tensors(saving *s)
{
    const th_optimizer *o = s->checkpoint->optimizer;
    for (int64_t i = 0; o && i < s->list.count; i++) {
        const th_listed_parameter *p = &s->list.parameter[i];
        s->n_moments += has_moments(o, p) ? th_saved_tensor_count(o, p->optimizer_index) : 0;
    }
    for (int64_t i = 0; i < s->list.count; i++)
        s->n_averages += th_average_updates(s->checkpoint->average, &s->list.parameter[i]) > 0;
    s->capacity = s->list.count + s->n_moments + s->n_averages + 1;
    const size_t tensors = (size_t)s->capacity * sizeof *s->tensor;
    const size_t moments = (size_t)(s->n_moments + 1) * sizeof *s->moment;
    s->tensor = th_allocate(s->list.ctx, tensors);
    const size_t names = (size_t)s->n_averages * sizeof *s->average_name;
    s->moment = th_allocate(s->list.ctx, moments);
    if (names > 0)
        s->average_name = th_allocate(s->list.ctx, names);
    if (s->tensor == NULL || s->moment == NULL || (names > 0 && s->average_name == NULL))
        return th_fail_memory(s->list.ctx, operation, tensors + moments + names);
    fill_lists(s);
    th_safetensors_sort_items(s->tensor, s->count);
    return s->group ? th_gathering_begin(&s->gathering, o, s->moment, s->n_moments, operation) : TH_OK;
}

/* -- the file -- */

static th_status open_file(saving *s)
{
    const char *configuration = s->checkpoint->configuration;
    s->state = th_state_text(s->checkpoint, &s->list, operation);
    if (s->state == NULL)
        return th_error_code(s->list.ctx);
    s->text[0] = (th_named_text){"format", "pt"};
    s->text[1] = (th_named_text){TH_STATE_TEXT, s->state};
    s->text[2] = (th_named_text){TH_CONFIGURATION_TEXT, configuration};
    s->contents = (th_safetensors_contents){
        s->list.ctx, operation, s->path, s->tensor, s->count, s->text, configuration ? 3 : 2, TH_CHECKSUMS_NAME};
    const th_status status = th_safetensors_writer_begin(&s->file, &s->contents);
    s->opened = status == TH_OK;
    return status;
}

/* Does everything that can fail before the first tensor is written. */
static th_status prepare(saving *s)
{
    th_status status = check_arguments(s);
    if (status == TH_OK)
        status = list_tensors(s);
    return status == TH_OK && s->writes ? open_file(s) : status;
}

static void release(saving *s)
{
    th_context *ctx = s->list.ctx;
    if (ctx) {
        th_release(ctx, s->average_name, (size_t)s->n_averages * sizeof *s->average_name);
        th_release(ctx, s->moment, (size_t)(s->n_moments + 1) * sizeof *s->moment);
        th_release(ctx, s->tensor, (size_t)s->capacity * sizeof *s->tensor);
    }
    free(s->state);
    th_gathering_end(&s->gathering);
    th_parameter_list_end(&s->list);
}

/* Writes the tensors, or sends this process's parts of them. If a write fails, the transfer continues, because the other
 * processes wait for it. */
static th_status write_tensors(saving *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        th_array array = s->tensor[i].array;
        const th_saved_moment *moment = s->tensor[i].source;
        if (s->group && moment && th_gather_moment(&s->gathering, moment, &array.data) != TH_OK)
            return th_error_code(s->list.ctx);
        if (s->writes)
            th_safetensors_writer_next(&s->file, &array);
    }
    return TH_OK;
}

/* -- agreement -- */

/* The processes agree that all of them are prepared, for the same transfer. */
static th_status agree_to_begin(const saving *s)
{
    uint32_t crc = 0;
    for (int64_t i = 0; !th_failed(s->group->ctx) && i < s->n_moments; i++)
        crc = th_gathering_crc32c(&s->gathering, &s->moment[i], crc);
    const th_fact facts[] = {
        {.name = "number of steps", .kind = TH_FACT_INTEGER, .integer = th_step(s->group->ctx)},
        {.name = "number of moments", .kind = TH_FACT_INTEGER, .integer = s->n_moments},
        {.name = "checksum of the sizes of the moments", .kind = TH_FACT_CHECKSUM, .integer = crc},
        {.name = "checksum of the averages of weights",
         .kind = TH_FACT_CHECKSUM,
         .integer = th_failed(s->group->ctx) ? 0 : th_averages_crc32c(s->checkpoint->average, &s->list)},
    };
    return th_group_agree_on(s->group, operation, facts, (int)(sizeof facts / sizeof *facts), 0, NULL);
}

th_status th_checkpoint_save(const char *path, const th_checkpoint *checkpoint)
{
    const th_checkpoint c = checkpoint ? *checkpoint : (th_checkpoint){0};
    saving s = {.checkpoint = &c, .path = path, .group = sharing_group(c.optimizer)};
    s.writes = th_group_rank(s.group) == 0;
    th_status status = prepare(&s);
    if (s.group)
        status = agree_to_begin(&s);
    const bool begins = status == TH_OK;
    if (begins)
        status = write_tensors(&s);
    if (s.opened)
        status = th_safetensors_writer_end(&s.file, status);
    if (s.group && begins)
        status = th_group_agree_on(s.group, operation, NULL, 0, 0, NULL);
    release(&s);
    return status;
}
