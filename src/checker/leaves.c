/* What a function reads, for the gradient checker: copies of its inputs, parameters and constants of somebody else's,
 * and what it makes itself.
 *
 * Somebody else's tensor keeps its handle and its memory. While the check runs the handle points to memory of the
 * checker's that holds the values in the checking type; at the end it points back. */
#include <string.h>

#include "autograd/gradient.h"
#include "checker/checker.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/format.h"

static const char *const operation = "check_gradient";

/* -- memory -- */

/* Storage of the owned memory for as many elements as t has. */
static bool take_storage(th_context *ctx, const th_tensor_impl *t, th_dtype dtype, th_storage *storage)
{
    size_t bytes;
    if (!th_checked_bytes(th_tensor_numel(t), th_dtype_size(dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "the size of a parameter in bytes overflows");
        return false;
    }
    th_block *block = th_take_block(ctx, &ctx->owned_memory, bytes, operation);
    if (block == NULL)
        return false;
    *storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = true, .producer = -1};
    return true;
}

static void give_storage(th_context *ctx, th_storage *storage)
{
    if (storage->block)
        th_block_free(&ctx->owned_memory, storage->block);
    storage->block = NULL;
}

static th_leaf *new_leaf(th_checker *checker, th_pool *leaves)
{
    th_leaf *leaf = th_pool_new(checker->ctx, leaves);
    if (leaf == NULL)
        th_fail_memory(checker->ctx, operation, sizeof *leaf);
    else
        *leaf = (th_leaf){.tensor = NULL};
    return leaf;
}

/* -- somebody else's tensors -- */

/* The leaf's tensor lies in the checker's memory from here on, with its owner's values, and so does its gradient. (What
 * is owned lies in one run: in the other memory as well.) */
static bool swap_in(th_checker *checker, th_leaf *leaf, th_tensor_impl *t)
{
    if (!take_storage(checker->ctx, t, checker->dtype, &leaf->values))
        return false;
    leaf->tensor = t;
    leaf->before.storage = t->storage;
    leaf->before.gradient = t->gradient;
    leaf->before.dtype = t->dtype;
    leaf->before.requires_gradient = t->requires_gradient;
    memcpy(leaf->before.axes, t->axes, sizeof t->axes);
    leaf->gradient = th_gradient_buffer_new(t, TH_GRADIENT_OF_LEAF, -1);
    const th_array source = th_tensor_array(t);
    t->dtype = checker->dtype;
    t->storage = &leaf->values;
    if (t->gradient)
        t->gradient = &leaf->gradient;
    const th_array target = th_tensor_array(t);
    th_convert_array(checker->ctx, &target, &source);
    return true;
}

/* Back to where it was, as it was, but for what the function did to it on purpose: freeing it waits. */
static void swap_out(th_checker *checker, th_leaf *leaf)
{
    th_tensor_impl *t = leaf->tensor;
    th_gradient_buffer_release(&leaf->gradient);
    t->storage = leaf->before.storage;
    t->gradient = leaf->before.gradient;
    t->dtype = leaf->before.dtype;
    t->requires_gradient = leaf->before.requires_gradient;
    memcpy(t->axes, leaf->before.axes, sizeof t->axes);
    give_storage(checker->ctx, &leaf->values);
}

static void name_parameter(const th_checker *checker, const th_tensor_impl *t, char *name, size_t size)
{
    const char *path = checker->ctx->path;
    if (t->label)
        snprintf(name, size, "%s%s%s", path, path[0] ? "." : "", t->label->name);
    else
        snprintf(name, size, "parameter %d", checker->parameters);
}

/* A tensor not met before is a parameter of the function when it asks for a gradient, else a constant; one that this
 * run has made is a constant of the run, and goes into the checking type only if it must. */
static void adopt(th_checker *checker, th_tensor_impl *t)
{
    const bool passing = t->checking == 0;
    if (passing && (t->dtype == checker->dtype || t->parameter || th_gradient_buffer_has_memory(t->gradient) ||
                    t->own_storage.holds != 1))
        return;
    th_pool *leaves = passing ? &checker->passing : &checker->leaves;
    th_leaf *leaf = new_leaf(checker, leaves);
    if (leaf == NULL)
        return;
    leaf->checked = t->requires_gradient && !passing;
    if (!swap_in(checker, leaf, t)) {
        leaves->count--;
        return;
    }
    leaf->numel = th_tensor_numel(t);
    t->checking = passing ? TH_CHECK_PASSING : (int32_t)leaves->count;
    if (!leaf->checked)
        return;
    name_parameter(checker, t, leaf->name, sizeof leaf->name);
    leaf->position = checker->n_inputs + checker->parameters++;
    if (checker->runs > 1 && !checker->incomplete) {
        checker->incomplete = true;
        memcpy(checker->late, leaf->name, sizeof checker->late);
    }
}

/* The same of a constant that dies with the step anyway. */
static void convert(const th_checker *checker, th_tensor_impl *t)
{
    th_context *ctx = checker->ctx;
    if (t->dtype == checker->dtype || t->storage != &t->own_storage || t->own_storage.holds != 1)
        return;
    th_storage old = t->own_storage;
    const th_array source = th_tensor_array(t);
    size_t bytes;
    if (!th_checked_bytes(th_tensor_numel(t), th_dtype_size(checker->dtype), &bytes) ||
        th_storage_new(t, bytes, operation) != TH_OK)
        return;
    t->dtype = checker->dtype;
    const th_array target = th_tensor_array(t);
    th_convert_array(ctx, &target, &source);
    th_storage_drop(ctx, &old);
}

/* -- what the context tells while the function runs -- */

static void note_cut(th_checker *checker)
{
    const char *file;
    int line;
    th_location(&file, &line);
    checker->cut = true;
    if (file)
        snprintf(checker->cut_place, sizeof checker->cut_place, ", at %s:%d", th_base_name(file), line);
}

static void on_read(th_tensor_impl *t, void *user)
{
    th_checker *checker = user;
    if (!th_is_floating(t->dtype))
        return;
    if (checker->recording && checker->ctx->no_grad_depth > 0 && t->requires_gradient && !checker->cut)
        note_cut(checker);
    if (t->checking == TH_CHECK_STEP)
        convert(checker, t);
    else if (t->owned && t->checking <= 0 && t->checking != TH_CHECK_PASSING)
        adopt(checker, t);
}

static void on_made(th_tensor_impl *t, void *user)
{
    th_checker *checker = user;
    if (!t->owned) {
        t->checking = TH_CHECK_STEP;
        return;
    }
    th_tensor_impl **entry = th_pool_new(checker->ctx, &checker->made);
    if (entry == NULL)
        th_fail_memory(checker->ctx, operation, sizeof *entry);
    else
        *entry = t;
}

static void on_freed(th_tensor_impl *t, void *user)
{
    th_checker *checker = user;
    if (t->checking == TH_CHECK_EARLIER || t->checking == TH_CHECK_PASSING)
        return;
    const char *name = t->checking > 0 ? th_checker_leaf(checker, t->checking - 1)->name : "";
    th_fail(checker->ctx, TH_ERROR_STATE, operation,
            "the function frees %s, which it has not made: it cannot be run a second time",
            name[0] ? name : "a tensor");
}

th_watch th_leaves_watch(th_checker *checker)
{
    return (th_watch){on_read, on_made, on_freed, checker};
}

void th_leaves_meet(th_checker *checker, th_tensor_impl *t)
{
    on_read(t, checker);
}

/* -- the inputs -- */

static const char *input_name(const th_checker *checker, int i, char *text, size_t size)
{
    if (checker->options.input_names && checker->options.input_names[i])
        return checker->options.input_names[i];
    if (checker->n_inputs == 1)
        return "x";
    snprintf(text, size, "x%d", i);
    return text;
}

/* Copies input i: floating ones in the checking type, wanting a gradient. A second copy stays as it is. */
static bool copy_input(th_checker *checker, int i, th_tensor *handle)
{
    th_context *ctx = checker->ctx;
    if (handle == NULL)
        return true;
    const th_tensor_impl *input = th_usable(handle, ctx, operation, "an input");
    if (input == NULL)
        return false;
    const bool floating = th_is_floating(input->dtype);
    th_tensor_impl *copy =
        th_tensor_new(ctx, floating ? checker->dtype : input->dtype, input->ndim, input->size, true, operation);
    if (copy == NULL)
        return false;
    checker->inputs[i] = copy->handle;
    memcpy(copy->axes, input->axes, sizeof copy->axes);
    const th_array target = th_tensor_array(copy), source = th_tensor_array(input);
    th_convert_array(ctx, &target, &source);
    th_leaf *leaf = new_leaf(checker, &checker->leaves);
    if (leaf == NULL)
        return false;
    char text[16];
    *leaf = (th_leaf){.tensor = copy, .copy = true, .checked = floating, .position = i, .numel = th_tensor_numel(copy)};
    snprintf(leaf->name, sizeof leaf->name, "%s", input_name(checker, i, text, sizeof text));
    copy->checking = (int32_t)checker->leaves.count;
    if (!take_storage(ctx, copy, copy->dtype, &leaf->values))
        return false;
    if (leaf->values.data && copy->own_storage.bytes)
        memcpy(leaf->values.data, copy->own_storage.data, copy->own_storage.bytes);
    return !floating || th_set_requires_gradient(copy->handle, true) != NULL;
}

bool th_leaves_begin(th_checker *checker, th_tensor *const *inputs)
{
    th_context *ctx = checker->ctx;
    th_pool_init(&checker->leaves, sizeof(th_leaf));
    th_pool_init(&checker->passing, sizeof(th_leaf));
    th_pool_init(&checker->made, sizeof(th_tensor_impl *));
    for (int i = 0; i < checker->n_inputs; i++)
        if (!copy_input(checker, i, inputs[i]))
            break;
    th_tape_clear(ctx);
    for (int64_t i = 0; i < ctx->owned_tensors.count; i++) {
        th_tensor_impl *t = th_pool_at(&ctx->owned_tensors, i);
        if (t->life == TH_LIFE_LIVE && t->checking == 0)
            t->checking = TH_CHECK_OUTSIDE;
    }
    return !ctx->error;
}

/* -- around a run -- */

void th_leaves_reset(th_checker *checker)
{
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        const th_leaf *leaf = th_checker_leaf(checker, i);
        th_tensor_impl *t = leaf->tensor;
        t->requires_gradient = leaf->checked;
        th_gradient_empty(t);
    }
}

/* Owned tensors that the function has made, whether or not it has freed them. Those of the first run wait for the
 * second, which may read them: then the function keeps them from run to run, and they are no longer its own. Parameters
 * are their modules'. */
static void give_back(th_checker *checker)
{
    int64_t waiting = 0;
    for (int64_t i = 0; i < checker->made.count; i++) {
        th_tensor_impl **entry = th_pool_at(&checker->made, i), *t = *entry;
        const bool freed = t->life == TH_LIFE_FREED;
        if ((t->life != TH_LIFE_LIVE && !freed) || t->checking > 0 || t->checking == TH_CHECK_OUTSIDE)
            continue;
        if (t->parameter) {
            t->checking = TH_CHECK_OUTSIDE;
        } else if (!freed && (checker->runs == 1 || (checker->ctx->error && t->checking == TH_CHECK_EARLIER))) {
            t->checking = TH_CHECK_EARLIER;
            *(th_tensor_impl **)th_pool_at(&checker->made, waiting++) = t;
        } else {
            t->life = TH_LIFE_LIVE;
            th_tensor_free(t->handle);
        }
    }
    checker->made.count = waiting;
}

/* The values of a leaf that was written to, or looked at through th_data, come back. An input or a parameter that the
 * first run has changed is refused: backward and the difference quotients would not see the same. */
static void put_right(th_checker *checker, th_leaf *leaf)
{
    th_context *ctx = checker->ctx;
    const th_tensor_impl *t = leaf->tensor;
    th_storage converted = {.block = NULL};
    const void *original = leaf->values.data;
    const size_t bytes = (size_t)th_tensor_numel(t) * th_dtype_size(t->dtype); /* memory after these is never written */
    leaf->version = t->storage->version;
    if (!leaf->copy) {
        if (!take_storage(ctx, t, checker->dtype, &converted))
            return;
        th_array target = th_tensor_array(t);
        th_array source = target;
        source.dtype = leaf->before.dtype;
        source.data = leaf->before.storage->data;
        target.data = converted.data;
        th_convert_array(ctx, &target, &source);
        original = converted.data;
    }
    if (original && bytes) {
        if (checker->runs == 1 && (leaf->copy || leaf->checked) && memcmp(t->storage->data, original, bytes) != 0)
            th_fail(ctx, TH_ERROR_STATE, operation, "the function changes %s in place", leaf->name);
        memcpy(t->storage->data, original, bytes);
    }
    give_storage(ctx, &converted);
}

void th_leaves_settle(th_checker *checker)
{
    for (int64_t i = 0; i < checker->passing.count; i++) {
        th_leaf *leaf = th_pool_at(&checker->passing, i);
        swap_out(checker, leaf);
        leaf->tensor->checking = 0;
    }
    checker->passing.count = 0;
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        if (leaf->tensor->gradient)
            th_gradient_buffer_release_tensor(leaf->tensor->gradient);
        if (leaf->tensor->storage->version != leaf->version)
            put_right(checker, leaf);
    }
    give_back(checker);
}

void th_leaves_end(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        if (!leaf->copy) {
            swap_out(checker, leaf);
            continue;
        }
        give_storage(ctx, &leaf->values);
        leaf->tensor->life = TH_LIFE_LIVE;
    }
    for (int64_t i = 0; i < ctx->owned_tensors.count; i++) {
        th_tensor_impl *t = th_pool_at(&ctx->owned_tensors, i);
        const bool waiting = t->checking && t->life == TH_LIFE_FREED;
        t->checking = 0;
        if (waiting) {
            t->life = TH_LIFE_LIVE;
            th_tensor_free(t->handle);
        }
    }
    for (int i = 0; i < checker->n_inputs; i++)
        th_tensor_free(checker->inputs[i]);
    th_pool_destroy(ctx, &checker->leaves);
    th_pool_destroy(ctx, &checker->passing);
    th_pool_destroy(ctx, &checker->made);
}

/* -- elements -- */

static void *address_of(const th_leaf *leaf, int64_t element)
{
    return (char *)th_tensor_data(leaf->tensor) + element * (int64_t)th_dtype_size(leaf->tensor->dtype);
}

double th_checker_element(const th_leaf *leaf, int64_t element)
{
    return th_number_load(leaf->tensor->dtype, address_of(leaf, element));
}

void th_checker_set_element(th_leaf *leaf, int64_t element, double value)
{
    th_number_store(leaf->tensor->dtype, address_of(leaf, element), value);
}
