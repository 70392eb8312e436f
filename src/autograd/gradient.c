/* Gradient memory: see gradient.h. */
#include "autograd/gradient.h"

#include <string.h>

#include "autograd/coverage.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/parameter.h"

/* So many parts of one gradient are told apart. What comes then finds the gradient completed with zeros, and adds: the
 * time for many views of one tensor grows with their number, not with its square. */
enum { MOST_REGIONS = 64 };

/* Lists of the current backward, in the tape's bump. */
struct th_touched {
    th_body *leaf;
    struct th_touched *next;
};

struct th_stashed {
    th_body *root;
    th_storage *gradient; /* of a leaf: what it has accumulated; of an intermediate result: what was kept */
    bool full;
    struct th_stashed *next;
};

bool th_gradient_wanted(const th_context *ctx, const th_body *t)
{
    if (t == NULL || !t->requires_gradient)
        return false;
    const th_body *root = t->root;
    if (root->wrt_target)
        return true;
    return root->node < 0 ? !ctx->tape->wrt : th_node_at(ctx->tape, root->node)->wanted;
}

bool th_input_gradient_wanted(const th_context *ctx, const th_node *node, int i)
{
    const th_operand_record *input = th_node_input(node, i);
    return input->requires_gradient && th_gradient_wanted(ctx, input->tensor);
}

th_array th_gradient_array(const th_body *t)
{
    th_array array = {.given = true, .dtype = t->dtype, .ndim = t->ndim};
    memcpy(array.size, t->size, sizeof t->size);
    memcpy(array.stride, t->gradient_stride, sizeof t->gradient_stride);
    memcpy(array.axes, t->axes, sizeof t->axes);
    char *data = t->root->gradient->data;
    array.data = data ? data + (size_t)t->gradient_offset * th_dtype_size(t->dtype) : NULL;
    return array;
}

static size_t gradient_bytes(const th_body *root)
{
    size_t bytes = 0;
    (void)th_checked_bytes(th_tensor_numel(root), th_dtype_size(root->dtype),
                           &bytes); /* fitted when the value was made */
    return bytes;
}

static th_status fill_storage(th_context *ctx, th_storage *storage, size_t bytes, bool owned)
{
    th_block *block = th_take_block(ctx, owned ? &ctx->owned_arena : &ctx->step_arena, bytes, "backward");
    if (block == NULL)
        return TH_ERROR_MEMORY;
    *storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = owned, .producer = -1};
    return TH_OK;
}

/* Memory of the step for a gradient. */
static th_storage *step_storage(th_context *ctx, size_t bytes)
{
    th_storage *storage = th_pool_new(ctx, &ctx->tape->storages);
    if (storage == NULL) {
        th_fail_memory(ctx, "backward", sizeof *storage);
        return NULL;
    }
    return fill_storage(ctx, storage, bytes, false) == TH_OK ? storage : NULL;
}

th_status th_gradient_reserve(th_context *ctx, th_body *root)
{
    root->early = 0;
    if (root->gradient)
        return TH_OK;
    if (root->node >= 0 || root->wrt_target) {
        root->gradient = step_storage(ctx, gradient_bytes(root));
        return root->gradient ? TH_OK : ctx->error;
    }
    const th_status status = root->parameter ? th_parameter_gradient_memory(root)
                                             : fill_storage(ctx, &root->gradient_storage, gradient_bytes(root), true);
    if (status == TH_OK)
        root->gradient = &root->gradient_storage;
    return status;
}

static void forget(th_body *root)
{
    root->gradient_full = false;
    root->covered = NULL;
}

/* The memory of an intermediate result's gradient goes back, and with it what a forward has written there. */
static void give_back(th_body *root)
{
    if (root->gradient)
        th_storage_drop(root->ctx, root->gradient);
    root->gradient = NULL;
    root->early = 0;
    forget(root);
}

static th_status note_touched(th_context *ctx, th_body *root)
{
    if (root->node >= 0 || root->touched)
        return TH_OK;
    struct th_touched *entry = th_bump_take(ctx, &ctx->tape->bytes, sizeof *entry);
    if (entry == NULL)
        return th_fail_memory(ctx, "backward", sizeof *entry);
    *entry = (struct th_touched){root, ctx->tape->touched};
    ctx->tape->touched = entry;
    root->touched = true;
    if (root->gradient_refused && !root->wrt_target) {
        root->gradient_refused = false;
        forget(root);
    }
    th_storage_changed(root->gradient); /* an operation may have read it through th_gradient */
    return TH_OK;
}

/* A gradient that is about to be added to must not be shared. */
static th_status unshare(th_context *ctx, th_body *root)
{
    if (root->node < 0 || root->gradient->holds == 1)
        return TH_OK;
    th_storage *copy = step_storage(ctx, root->gradient->bytes);
    if (copy == NULL)
        return ctx->error;
    if (copy->data && copy->bytes)
        memcpy(copy->data, root->gradient->data, copy->bytes);
    th_storage_drop(ctx, root->gradient);
    root->gradient = copy;
    return TH_OK;
}

static void set_full(th_body *root)
{
    root->gradient_full = true;
    root->covered = NULL;
}

/* Adds a region nobody has written to the list. */
static th_status cover(th_context *ctx, th_body *root, const th_region *region)
{
    int64_t covered = region->numel;
    for (const th_region *r = root->covered; r; r = r->next)
        covered += r->numel;
    if (covered == th_tensor_numel(root)) {
        set_full(root);
        return TH_OK;
    }
    th_region *entry = th_bump_take(ctx, &ctx->tape->bytes, sizeof *entry);
    if (entry == NULL)
        return th_fail_memory(ctx, "backward", sizeof *entry);
    *entry = *region;
    entry->next = root->covered;
    root->covered = entry;
    return TH_OK;
}

th_status th_gradient_open(th_context *ctx, th_body *t, bool *add)
{
    th_body *root = t->root;
    if (th_gradient_reserve(ctx, root) != TH_OK || note_touched(ctx, root) != TH_OK)
        return ctx->error;
    if (!root->gradient_full) {
        const th_region region = th_region_of(t);
        th_relation relation = TH_DISJOINT;
        int regions = 0;
        for (const th_region *r = root->covered; r && relation == TH_DISJOINT; r = r->next, regions++)
            relation = th_region_relation(r, &region);
        *add = relation == TH_INSIDE;
        if (*add)
            return TH_OK;
        if (relation == TH_DISJOINT && regions < MOST_REGIONS)
            return cover(ctx, root, &region);
        th_gradient_complete(root);
    }
    *add = true;
    return unshare(ctx, root);
}

void th_gradient_share(th_body *root, th_storage *storage)
{
    th_storage_hold(storage);
    if (root->gradient) /* reserved early, and not used */
        th_storage_drop(root->ctx, root->gradient);
    root->early = 0;
    root->gradient = storage;
    set_full(root);
}

th_status th_gradient_take_value(th_context *ctx, th_body *root)
{
    th_storage *gradient = th_pool_new(ctx, &ctx->tape->storages), *value = root->storage;
    if (gradient == NULL)
        return th_fail_memory(ctx, "backward", sizeof *gradient);
    *gradient =
        (th_storage){.data = value->data, .block = value->block, .bytes = value->bytes, .holds = 1, .producer = -1};
    value->data = value->block = NULL;
    value->dropped = true;
    value->holds = 0;
    root->gradient = gradient;
    set_full(root);
    return TH_OK;
}

void th_gradient_complete(th_body *root)
{
    if (root->gradient_full)
        return;
    th_fill_uncovered(root->covered, root->gradient->data, th_tensor_numel(root), th_dtype_size(root->dtype));
    set_full(root);
}

void th_gradient_used_up(th_body *root)
{
    th_context *ctx = root->ctx;
    if (!th_gradient_begun(root)) /* none, or one that a forward has computed and nobody has asked for yet */
        return;
    if (root->keep_gradient || root->wrt_target || ctx->keep_values) {
        th_gradient_complete(root); /* nobody has, where the node that made it was not walked */
        if (root->kept)
            th_storage_drop(ctx, root->kept);
        root->kept = root->gradient;
    } else {
        th_storage_drop(ctx, root->gradient);
    }
    root->gradient = NULL;
    forget(root);
}

/* -- around a pass -- */

/* A root whose gradient was asked for: the one it has is set aside. */
static th_status stash(th_context *ctx, th_body *root)
{
    struct th_stashed *entry = th_bump_take(ctx, &ctx->tape->bytes, sizeof *entry);
    if (entry == NULL)
        return th_fail_memory(ctx, "backward", sizeof *entry);
    *entry = (struct th_stashed){root, root->node < 0 ? root->gradient : root->kept, root->gradient_full,
                                 ctx->tape->stashed};
    ctx->tape->stashed = entry;
    if (root->node >= 0)
        give_back(root);
    root->gradient = root->kept = NULL;
    forget(root);
    root->wrt_target = true;
    return TH_OK;
}

th_status th_gradients_begin(th_context *ctx, const th_backward_options *options)
{
    ctx->tape->wrt = options->n_wrt > 0;
    for (int i = 0; i < options->n_wrt; i++) {
        const th_body *t = th_usable(options->wrt[i], ctx, "backward", "a tensor of wrt");
        if (t == NULL)
            break;
        if (!t->requires_gradient) {
            th_fail(ctx, TH_ERROR_ARGUMENT, "backward", "wrt[%d] does not require a gradient", i);
            break;
        }
        if (!t->root->wrt_target && stash(ctx, t->root) != TH_OK)
            break;
    }
    return ctx->error ? th_gradients_end(ctx, options) : TH_OK;
}

/* The chosen gradient of t as a tensor of the step. */
static th_body *chosen(th_context *ctx, th_body *t)
{
    th_body *root = t->root;
    th_storage *storage = root->node < 0 ? root->gradient : root->kept;
    if (storage == NULL) {
        th_body *zeros = th_tensor_new(ctx, t->dtype, t->ndim, t->size, false, "backward");
        if (zeros) {
            const th_array array = th_tensor_array(zeros);
            th_fill_array(ctx, &array, 0);
        }
        return zeros;
    }
    if (root->node < 0)
        th_gradient_complete(root);
    return th_gradient_alias(t, storage, false);
}

static void hand_out(th_context *ctx, const th_backward_options *options)
{
    for (int i = 0; i < options->n_wrt && !ctx->error; i++)
        if (options->gradients)
            options->gradients[i] = th_handle_of(chosen(ctx, th_body_of(options->wrt[i])));
}

static void drop_if(th_context *ctx, th_storage *storage)
{
    if (storage)
        th_storage_drop(ctx, storage);
}

/* Leaves get back what they had. So do intermediate results, unless this pass has brought a gradient that is to be kept
 * for reading. */
static void end_wrt(th_context *ctx)
{
    th_tape *tape = ctx->tape;
    for (struct th_stashed *entry = tape->stashed; entry; entry = entry->next) {
        th_body *root = entry->root;
        root->wrt_target = false;
        if (root->node < 0) {
            drop_if(ctx, root->gradient);
            forget(root);
            root->gradient = entry->gradient;
            root->gradient_full = entry->full;
            root->touched = false;
        } else if (root->kept && (root->keep_gradient || ctx->keep_values)) {
            drop_if(ctx, entry->gradient);
        } else {
            drop_if(ctx, root->kept);
            root->kept = entry->gradient;
        }
    }
    tape->stashed = NULL;
    tape->wrt = false;
}

static void drop_unfinished(th_context *ctx)
{
    for (int64_t i = 0; i < ctx->tape->nodes.count; i++) {
        th_node *node = th_node_at(ctx->tape, i);
        for (int j = 0; j < node->n_outputs; j++) {
            th_body *output = th_node_output(node, j)->tensor;
            if (output && output->root == output)
                give_back(output);
        }
    }
}

th_status th_gradients_end(th_context *ctx, const th_backward_options *options)
{
    th_tape *tape = ctx->tape;
    hand_out(ctx, options);
    if (ctx->error)
        drop_unfinished(ctx);
    for (struct th_touched *entry = tape->touched; entry; entry = entry->next) {
        entry->leaf->touched = false;
        if (ctx->error)
            forget(entry->leaf);
        else if (!entry->leaf->wrt_target)
            th_gradient_complete(entry->leaf);
    }
    tape->touched = NULL;
    end_wrt(ctx);
    return ctx->error;
}

/* -- reading -- */

th_body *th_gradient_alias(th_body *t, th_storage *storage, bool owned)
{
    th_body *alias = th_handle_new(t->ctx, owned, "gradient");
    if (alias == NULL)
        return NULL;
    alias->storage = storage;
    alias->dtype = t->dtype;
    alias->ndim = t->ndim;
    memcpy(alias->size, t->size, sizeof t->size);
    memcpy(alias->stride, t->gradient_stride, sizeof t->gradient_stride);
    memcpy(alias->axes, t->axes, sizeof t->axes);
    alias->offset = t->gradient_offset;
    th_storage_hold(storage);
    return alias;
}

/* The gradient as a tensor; NULL when there is none, or memory is out. */
static th_body *gradient_of(th_body *t)
{
    th_body *root = t->root;
    if (root->node >= 0)
        return root->kept ? th_gradient_alias(t, root->kept, false) : NULL;
    if (!root->gradient_full)
        return NULL;
    if (t != root)
        return th_gradient_alias(t, root->gradient, false);
    if (t->gradient_tensor == NULL)
        t->gradient_tensor = th_gradient_alias(t, root->gradient, true);
    return t->gradient_tensor;
}

th_tensor *(th_gradient)(th_tensor *handle)
{
    th_body *t = th_usable(handle, NULL, "gradient", "the tensor");
    return t && t->requires_gradient ? th_handle_of(gradient_of(t)) : NULL;
}

th_tensor *(th_keep_gradient)(th_tensor *handle)
{
    const th_body *t = th_usable(handle, NULL, "keep_gradient", "the tensor");
    if (t == NULL)
        return NULL;
    if (!t->requires_gradient) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, "keep_gradient", "the tensor does not require a gradient");
        return NULL;
    }
    t->root->keep_gradient = true;
    return handle;
}

void th_gradient_empty(const th_body *t)
{
    if (t->root && t->root->node < 0) {
        forget(t->root);
        t->root->gradient_refused = false;
    }
}

void th_empty_gradient(th_tensor *handle)
{
    const th_body *t = th_looked_at(handle, "empty_gradient");
    if (t)
        th_gradient_empty(t);
}

th_tensor *(th_set_requires_gradient)(th_tensor *handle, bool requires_gradient)
{
    th_body *t = th_usable(handle, NULL, "set_requires_gradient", "the tensor");
    if (t == NULL)
        return NULL;
    if (!th_is_floating(t->dtype)) {
        th_fail(t->ctx, TH_ERROR_TYPE, "set_requires_gradient", "only float32 and float64 have gradients, this is %s",
                th_dtype_name(t->dtype));
        return NULL;
    }
    if (!t->owned || t->storage != &t->own_storage) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, "set_requires_gradient",
                "the tensor belongs to the tape, a leaf is yours (th_keep makes a copy that is)");
        return NULL;
    }
    t->requires_gradient = requires_gradient;
    t->root = t;
    memcpy(t->gradient_stride, t->stride, sizeof t->stride);
    t->gradient_offset = 0;
    return handle;
}

bool th_requires_gradient(const th_tensor *handle)
{
    const th_body *t = th_looked_at(handle, "requires_gradient");
    return t && t->requires_gradient;
}
