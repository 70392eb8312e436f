/* The processes agree on errors, on facts that must be equal, and on the parameters that are due. */
#include "training/shared/agreement.h"

#include <string.h>

#include "autograd/gradient.h"
#include "kernels/machine/crc32c.h"
#include "nn/module_options.h"
#include "processes/group.h"
#include "tensor/error.h"
#include "tensor/random_state.h"
#include "training/moments.h"
#include "training/saved_state.h"
#include "training/shared/step_buffers.h"

static const char operation[] = "optimizer_step";

/* Returns the checksum of the parameters; with local steps, of those before the first one. */
static uint32_t parameters_crc32c(const th_optimizer *o)
{
    uint32_t crc = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        const char *start = p->moments ? p->moments->start : NULL;
        const void *data = start ? start + p->entry->offset : th_tensor_data(p->tensor);
        crc = th_crc32c(crc, data, (size_t)th_tensor_numel(p->tensor) * th_dtype_size(p->tensor->dtype));
    }
    return crc;
}

/* Returns a checksum of where the parameters are in memory, which of them are frozen, and who owns them. All processes
 * must have the same spans to exchange. */
static uint32_t layout_crc32c(const th_optimizer *o)
{
    const size_t cuts = ((size_t)o->shards.processes + 1) * sizeof(size_t);
    uint32_t crc = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = o->layout[i];
        const uint64_t place[] = {(uint64_t)(p - o->parameters), p->entry->offset, p->entry->bytes,
                                  (uint64_t)p->tensor->dtype, p->tensor->requires_gradient};
        crc = th_crc32c(crc, place, sizeof place);
        crc = p->moments ? th_crc32c(crc, p->moments->cut, cuts) : crc;
    }
    return crc;
}

/* Returns a checksum of the options that affect the result of a step, except the learning rate. */
static uint32_t options_crc32c(const th_optimizer *o)
{
    th_saved_option option[TH_MAX_SAVED_OPTIONS];
    const int n = th_optimizer_saved_options(o, option);
    const char *rule = th_optimizer_rule_name(o);
    uint32_t crc = th_crc32c(0, rule, strlen(rule));
    for (int i = 0; i < n; i++)
        crc = th_crc32c(crc, &option[i].value, sizeof option[i].value);
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_group *g = &o->groups[o->parameters[i].group];
        const double values[] = {g->learning_rate_factor, g->weight_decay, o->parameters[i].parts};
        crc = th_crc32c(crc, values, sizeof values);
    }
    return crc;
}

th_status th_gather_due(th_optimizer *o)
{
    const th_step_buffers *s = o->buffers;
    if (o->same_due)
        return TH_OK;
    unsigned char *own = s->due + (size_t)o->shards.rank * (size_t)o->count;
    for (int64_t i = 0; i < o->count; i++)
        own[i] = o->parameters[i].due;
    if (th_group_all_gather(o->group, operation, s->due, (size_t)o->count) != TH_OK)
        return TH_ERROR_PROCESS;
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        bool due = false;
        for (int rank = 0; rank < o->shards.processes; rank++)
            due |= s->due[(size_t)rank * (size_t)o->count + (size_t)i];
        if (due && !p->due && th_gradient_zero(p->tensor) != TH_OK)
            return o->ctx->error;
        p->due = due;
    }
    return TH_OK;
}

th_status th_agree_on_step(th_optimizer *o)
{
    const th_context *ctx = o->ctx;
    const bool compare = !ctx->error && (!o->compared || o->diloco.local_steps > 0);
    uint32_t due = 0;
    bool same_due;
    int64_t elements = 0, trained = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const unsigned char flag = o->parameters[i].due || o->parameters[i].changed;
        due = th_crc32c(due, &flag, 1);
        elements += th_tensor_numel(o->parameters[i].tensor);
        trained += o->parameters[i].tensor->requires_gradient ? th_tensor_numel(o->parameters[i].tensor) : 0;
    }
    const th_fact facts[] = {
        {.name = "number of shards", .kind = TH_FACT_INTEGER, .integer = o->shards.count},
        {.name = "number of parameters", .kind = TH_FACT_INTEGER, .integer = elements},
        {.name = "number of parameters that are not frozen", .kind = TH_FACT_INTEGER, .integer = trained},
        {.name = "number of steps", .kind = TH_FACT_INTEGER, .integer = ctx->step},
        {.name = "seed", .kind = TH_FACT_INTEGER, .integer = (int64_t)ctx->seed},
        {.name = "checksum of the random calls before the step",
         .kind = TH_FACT_CHECKSUM,
         .integer = th_crc32c(0, o->shards.random_calls, sizeof o->shards.random_calls)},
        {.name = "learning rate", .kind = TH_FACT_REAL, .real = o->learning_rate},
        {.name = "precision of products", .kind = TH_FACT_INTEGER, .integer = (int64_t)ctx->machine.precision},
        {.name = "training mode", .kind = TH_FACT_INTEGER, .integer = ctx->training},
        {.name = "fusion", .kind = TH_FACT_INTEGER, .integer = ctx->fusion},
        {.name = "backend of products (0: native kernels with fused multiply-add, 1: OpenBLAS)",
         .kind = TH_FACT_INTEGER,
         .integer = (int64_t)ctx->machine.gemm},
        {.name = "number of local steps", .kind = TH_FACT_INTEGER, .integer = o->diloco.local_steps},
        {.name = "checksum of the optimizer's options", .kind = TH_FACT_CHECKSUM, .integer = options_crc32c(o)},
        {.name = "checksum of the modules' options",
         .kind = TH_FACT_CHECKSUM,
         .integer = ctx->error ? 0 : th_module_options_crc32c(o->module)},
        {.name = "checksum of the layout of the parameters in memory",
         .kind = TH_FACT_CHECKSUM,
         .integer = ctx->error ? 0 : layout_crc32c(o)},
        {.name = "checksum of the parameters", .kind = TH_FACT_CHECKSUM, .integer = compare ? parameters_crc32c(o) : 0},
    };
    _Static_assert(sizeof facts / sizeof *facts <= TH_MAX_FACTS, "an agreement has no place for all facts");
    if (!o->compared && th_module_options_agree(o->module, o->group, operation) != TH_OK)
        return ctx->error;
    if (th_group_agree_on(o->group, operation, facts, (int)(sizeof facts / sizeof *facts), due, &same_due) != TH_OK)
        return ctx->error;
    o->compared = true;
    o->same_due = same_due;
    return TH_OK;
}
