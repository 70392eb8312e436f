/* Programs about steps in shards, alone and with another process. The other process is a mirror: it does the same as
 * this one, and answers each message with what this process sends to it, as far as that reaches. */
#include <string.h>

#include "subjects.h"

static const char *mirror(void *user, const th_message *send, int n_send, const th_message *receive, int n_receive,
                          double seconds)
{
    (void)user, (void)seconds;
    for (int i = 0; i < n_receive; i++) {
        const size_t sent = i < n_send ? send[i].bytes : 0;
        const size_t bytes = sent < receive[i].bytes ? sent : receive[i].bytes;
        memset(receive[i].data, 0, receive[i].bytes);
        if (bytes > 0)
            memcpy(receive[i].data, send[i].data, bytes);
    }
    return NULL;
}

/* A repeated setup must find the memory of parameters as the first one did: the mirror's answers depend on the parts of
 * the processes. */
static th_status without_model(program_run *r)
{
    th_module_free(r->model);
    r->model = NULL;
    return th_error_code(r->ctx);
}

static th_status setup(program_run *r, int processes)
{
    const th_transport transport = {.size = processes, .exchange = mirror};
    th_group *group = th_group_new(r->ctx, processes > 1 ? &transport : NULL);
    if (group == NULL)
        return th_error_code(r->ctx);
    TRY(th_group_set_timeout(group, 5));
    r->model = th_module_list_new(r->ctx);
    th_module_list_add(r->model, th_dense_new(r->ctx, 6, 10, NULL));
    th_module_list_add(r->model, th_dropout_new(r->ctx, 0.2));
    th_module_list_add(r->model, th_dense_new(r->ctx, 10, 3, NULL));
    r->optimizer =
        th_adam_new(r->model, &(th_adam_options){.learning_rate = 0.01, .max_norm = 1, .shards = 5, .group = group});
    if (r->optimizer == NULL)
        return without_model(r);
    if (processes > 1)
        th_group_request_stop(group);
    add_number(r, 10 * th_group_rank(group) + th_group_size(group));
    TRY(th_group_agree(group));
    add_number(r, th_group_stop_requested(group));
    add_number(r, (double)th_group_traffic_so_far(group).bytes_sent);
    return th_error_code(r->ctx);
}

static th_status setup_alone(program_run *r)
{
    return setup(r, 1);
}

static th_status setup_together(program_run *r)
{
    return setup(r, 2);
}

static th_status train(program_run *r)
{
    th_gradient_range range[4];
    for (th_shard shard = th_optimizer_shards(r->optimizer); th_shard_next(&shard);) {
        th_tensor *logits = th_module_forward(r->model, numbers(r, TH_SHAPE(4, 6), 91 + (uint32_t)shard.index));
        th_tensor *loss = th_cross_entropy(logits, integers(r, TH_SHAPE(4), 3, 92), NULL);
        TRY(th_backward(loss, NULL));
        shard.loss = th_item(loss);
        add_number(r, (double)th_module_gradients(r->model, range, 4));
    }
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_optimizer_loss(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status end(program_run *r)
{
    th_group *other = th_group_new(r->ctx, NULL);
    add_number(r, other != NULL);
    th_group_free(other);
    return th_error_code(r->ctx);
}

const program shards_alone = {.name = "shards_alone", .setup = setup_alone, .step = {train, train, end}};
const program shards_together = {.name = "shards_together", .setup = setup_together, .step = {train, train}};
