/* The tensors that the function under test reads. They are of three kinds: copies of its inputs; parameters and
 * constants from outside; tensors that the function makes.
 *
 * An outside tensor keeps its handle and its memory. During the check, its handle points to memory of the checker with
 * the values in the checking type. After the check, the handle points to the old memory again. */
#include <string.h>

#include "autograd/gradient.h"
#include "checker/checker.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/format.h"
#include "tensor/splitmix.h"

static const char *const operation = "check_gradient";

/* -- memory -- */

/* Allocates storage for the elements of t from the owned memory. */
static bool new_storage(th_context *ctx, const th_tensor_impl *t, th_dtype dtype, th_storage *storage)
{
    size_t bytes;
    if (!th_checked_bytes(th_tensor_numel(t), th_dtype_size(dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "the size of a tensor in bytes overflows");
        return false;
    }
    th_block *block = th_block_new(ctx, &ctx->owned_memory, bytes, operation);
    if (block == NULL)
        return false;
    *storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = true, .producer = -1};
    return true;
}

static void free_storage(th_context *ctx, th_storage *storage)
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

/* -- outside tensors -- */

/* Moves the tensor of a leaf, with its values, to memory of the checker, and gives it a new gradient buffer. The
 * tensor is owned and thus contiguous, and so are the new values. */
static bool move_into_checker(th_checker *checker, th_leaf *leaf, th_tensor_impl *t)
{
    if (!new_storage(checker->ctx, t, checker->dtype, &leaf->working_values))
        return false;
    leaf->tensor = t;
    leaf->original.storage = t->storage;
    leaf->original.gradient = t->gradient;
    leaf->original.dtype = t->dtype;
    leaf->original.requires_gradient = t->requires_gradient;
    memcpy(leaf->original.axes, t->axes, sizeof t->axes);
    leaf->gradient = th_gradient_buffer_new(t, TH_GRADIENT_OF_LEAF, -1);
    const th_array source = th_tensor_array(t);
    t->dtype = checker->dtype;
    t->storage = &leaf->working_values;
    if (t->gradient)
        t->gradient = &leaf->gradient;
    const th_array target = th_tensor_array(t);
    th_convert_array(checker->ctx, &target, &source);
    return true;
}

/* Restores the members that the tensor of a leaf had before the check. A tensor that the function freed stays freed. */
static void move_out_of_checker(th_checker *checker, th_leaf *leaf)
{
    th_tensor_impl *t = leaf->tensor;
    th_gradient_buffer_release(&leaf->gradient);
    t->storage = leaf->original.storage;
    t->gradient = leaf->original.gradient;
    t->dtype = leaf->original.dtype;
    t->requires_gradient = leaf->original.requires_gradient;
    memcpy(t->axes, leaf->original.axes, sizeof t->axes);
    free_storage(checker->ctx, &leaf->working_values);
}

static void set_shape(th_leaf *leaf, const th_tensor_impl *t)
{
    leaf->variable.numel = th_tensor_numel(t);
    leaf->variable.ndim = t->ndim;
    memcpy(leaf->variable.size, t->size, sizeof leaf->variable.size);
}

static void name_parameter(const th_checker *checker, const th_tensor_impl *t, char *name, size_t size)
{
    const char *path = checker->ctx->scope_path;
    if (t->label)
        snprintf(name, size, "%s%s%s", path, path[0] ? "." : "", t->label->name);
    else
        snprintf(name, size, "parameter %d", checker->parameter_count);
}

/* Adds a tensor that the function reads for the first time. A tensor that requires a gradient is a parameter, and any
 * other is a constant. A tensor that this run made is a constant, too; it is converted only if it does not have the
 * checking type. */
static void add_read_tensor(th_checker *checker, th_tensor_impl *t)
{
    const bool temporary = t->check_role == 0;
    if (temporary && (t->dtype == checker->dtype || t->parameter || th_gradient_buffer_has_memory(t->gradient) ||
                      t->own_storage.holds != 1))
        return;
    th_pool *leaves = temporary ? &checker->temporaries : &checker->leaves;
    th_leaf *leaf = new_leaf(checker, leaves);
    if (leaf == NULL)
        return;
    leaf->variable.checked = t->requires_gradient && !temporary;
    if (!move_into_checker(checker, leaf, t)) {
        leaves->count--;
        return;
    }
    set_shape(leaf, t);
    t->check_role = temporary ? TH_CHECK_TEMPORARY : TH_CHECK_LEAF;
    if (!leaf->variable.checked)
        return;
    name_parameter(checker, t, leaf->variable.name, sizeof leaf->variable.name);
    leaf->variable.input_number = checker->n_inputs + checker->parameter_count++;
    if (checker->runs > 1 && !checker->incomplete) {
        checker->incomplete = true;
        memcpy(checker->late_parameter_name, leaf->variable.name, sizeof checker->late_parameter_name);
    }
}

/* Converts a constant in the memory of the step. It needs no leaf, because it is released at the end of the step. */
static void convert_constant(const th_checker *checker, th_tensor_impl *t)
{
    th_context *ctx = checker->ctx;
    if (t->dtype == checker->dtype || t->storage != &t->own_storage || t->own_storage.holds != 1)
        return;
    th_storage old_storage = t->own_storage;
    const th_array source = th_tensor_array(t);
    size_t bytes;
    if (!th_checked_bytes(th_tensor_numel(t), th_dtype_size(checker->dtype), &bytes) ||
        th_storage_new(t, bytes, operation) != TH_OK)
        return;
    t->dtype = checker->dtype;
    const th_array target = th_tensor_array(t);
    th_convert_array(ctx, &target, &source);
    th_storage_drop(ctx, &old_storage);
}

/* -- callbacks of the context while the function runs -- */

static void note_recording_off(th_checker *checker)
{
    const char *file;
    int line;
    th_caller_location(&file, &line);
    checker->recording_off = true;
    if (file)
        snprintf(checker->recording_off_at, sizeof checker->recording_off_at, ", at %s:%d", th_base_name(file), line);
}

/* Multiplies every element of a result by 1 plus or minus the rounding unit. Skips views, because their source was
 * perturbed already. */
static void perturb_result(th_checker *checker, th_tensor_impl *t)
{
    const double unit = checker->engine.unit;
    const size_t size = th_dtype_size(t->dtype);
    if (t->owned || t->check_role != 0 || t->storage != &t->own_storage)
        return;
    t->check_role = TH_CHECK_PERTURBED;
    for (int64_t e = 0; e < th_tensor_numel(t); e++) { /* the elements of a result are contiguous */
        void *element = (char *)th_tensor_data(t) + (size_t)e * size;
        const double change = th_splitmix64(&checker->engine.random) & 1 ? unit : -unit;
        th_number_write(t->dtype, element, th_number_read(t->dtype, element) * (1 + change));
    }
}

static void on_read(th_tensor_impl *t, void *user)
{
    th_checker *checker = user;
    if (!th_is_floating(t->dtype))
        return;
    if (checker->perturbs)
        perturb_result(checker, t);
    if (checker->recording && checker->ctx->no_grad_depth > 0 && t->requires_gradient && !checker->recording_off)
        note_recording_off(checker);
    if (t->check_role == TH_CHECK_STEP)
        convert_constant(checker, t);
    else if (t->owned && t->check_role != TH_CHECK_LEAF && t->check_role != TH_CHECK_TEMPORARY)
        add_read_tensor(checker, t);
}

static void on_made(th_tensor_impl *t, void *user)
{
    th_checker *checker = user;
    if (!t->owned) {
        t->check_role = TH_CHECK_STEP;
        return;
    }
    th_tensor_impl **entry = th_pool_new(checker->ctx, &checker->made_tensors);
    if (entry == NULL)
        th_fail_memory(checker->ctx, operation, sizeof *entry);
    else
        *entry = t;
}

/* Returns the leaf of a tensor whose role is TH_CHECK_LEAF. */
static const th_leaf *leaf_of(const th_checker *checker, const th_tensor_impl *t)
{
    int64_t i = 0;
    while (th_checker_leaf(checker, i)->tensor != t)
        i++;
    return th_checker_leaf(checker, i);
}

static void on_freed(th_tensor_impl *t, void *user)
{
    th_checker *checker = user;
    if (t->check_role == TH_CHECK_FIRST_RUN || t->check_role == TH_CHECK_TEMPORARY)
        return;
    const char *name = t->check_role == TH_CHECK_LEAF ? leaf_of(checker, t)->variable.name : "";
    th_fail(checker->ctx, TH_ERROR_STATE, operation,
            "the function frees %s, which it did not make; a second run of the function is not possible",
            name[0] ? name : "a tensor");
}

th_watch th_leaves_watch(th_checker *checker)
{
    return (th_watch){on_read, on_made, on_freed, checker};
}

void th_leaves_note_read(th_checker *checker, th_tensor_impl *t)
{
    on_read(t, checker);
}

/* -- the inputs -- */

static const char *input_name(const th_checker *checker, int i, char *text, size_t size)
{
    if (checker->engine.options.input_names && checker->engine.options.input_names[i])
        return checker->engine.options.input_names[i];
    if (checker->n_inputs == 1)
        return "x";
    snprintf(text, size, "x%d", i);
    return text;
}

/* Copies input i. The copy of a floating input has the checking type and requires a gradient. On failure the error
 * is pending. */
static void copy_input(th_checker *checker, int i, th_tensor *handle)
{
    th_context *ctx = checker->ctx;
    if (handle == NULL)
        return;
    const th_tensor_impl *input = th_usable_tensor(handle, ctx, operation, "an input");
    if (input == NULL)
        return;
    const bool floating = th_is_floating(input->dtype);
    th_tensor_impl *copy =
        th_tensor_new(ctx, floating ? checker->dtype : input->dtype, input->ndim, input->size, true, operation);
    if (copy == NULL)
        return;
    checker->inputs[i] = copy->handle;
    memcpy(copy->axes, input->axes, sizeof copy->axes);
    const th_array target = th_tensor_array(copy), source = th_tensor_array(input);
    th_convert_array(ctx, &target, &source);
    th_leaf *leaf = new_leaf(checker, &checker->leaves);
    if (leaf == NULL)
        return;
    char text[16];
    *leaf = (th_leaf){.tensor = copy, .is_copy = true, .variable = {.checked = floating, .input_number = i}};
    set_shape(leaf, copy);
    snprintf(leaf->variable.name, sizeof leaf->variable.name, "%s", input_name(checker, i, text, sizeof text));
    copy->check_role = TH_CHECK_LEAF;
    if (!new_storage(ctx, copy, copy->dtype, &leaf->initial_values))
        return;
    if (leaf->initial_values.data && copy->own_storage.bytes)
        memcpy(leaf->initial_values.data, copy->own_storage.data, copy->own_storage.bytes);
    if (floating)
        (void)th_set_requires_gradient(copy->handle, true);
}

bool th_leaves_begin(th_checker *checker, th_tensor *const *inputs)
{
    th_context *ctx = checker->ctx;
    th_pool_init(&checker->leaves, sizeof(th_leaf));
    th_pool_init(&checker->temporaries, sizeof(th_leaf));
    th_pool_init(&checker->made_tensors, sizeof(th_tensor_impl *));
    for (int i = 0; i < checker->n_inputs && !ctx->error; i++)
        copy_input(checker, i, inputs[i]);
    th_tape_clear(ctx);
    for (int64_t i = 0; i < ctx->owned_tensors.count; i++) {
        th_tensor_impl *t = th_pool_at(&ctx->owned_tensors, i);
        if (t->life == TH_LIFE_LIVE && t->check_role == 0)
            t->check_role = TH_CHECK_OUTSIDE;
    }
    return !ctx->error;
}

/* -- around a run -- */

void th_leaves_begin_run(th_checker *checker)
{
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        const th_leaf *leaf = th_checker_leaf(checker, i);
        th_tensor_impl *t = leaf->tensor;
        t->requires_gradient = leaf->variable.checked;
        th_gradient_empty(t);
    }
}

/* Frees the owned tensors that the function made, except parameters, which belong to modules. Tensors of the first run
 * stay until the second run ends. If the second run reads such a tensor, the function under test has kept it from the
 * first run. It then counts as an outside tensor. */
static void free_made_tensors(th_checker *checker)
{
    int64_t n_kept = 0;
    for (int64_t i = 0; i < checker->made_tensors.count; i++) {
        th_tensor_impl **entry = th_pool_at(&checker->made_tensors, i), *t = *entry;
        const bool freed = t->life == TH_LIFE_FREED;
        if ((t->life != TH_LIFE_LIVE && !freed) || t->check_role == TH_CHECK_LEAF || t->check_role == TH_CHECK_OUTSIDE)
            continue;
        if (t->parameter) {
            t->check_role = TH_CHECK_OUTSIDE;
        } else if (!freed && (checker->runs == 1 || (checker->ctx->error && t->check_role == TH_CHECK_FIRST_RUN))) {
            t->check_role = TH_CHECK_FIRST_RUN;
            *(th_tensor_impl **)th_pool_at(&checker->made_tensors, n_kept++) = t;
        } else {
            t->life = TH_LIFE_LIVE;
            th_tensor_free(t->handle);
        }
    }
    checker->made_tensors.count = n_kept;
}

/* Restores the values of a leaf after a write, or after a call of th_data. Reports an error if the first run changed an
 * input or a parameter, because backward and the difference quotients would then see different values. */
static void restore_values(th_checker *checker, th_leaf *leaf)
{
    th_context *ctx = checker->ctx;
    const th_tensor_impl *t = leaf->tensor;
    th_storage converted = {.block = NULL};
    const void *initial_values = leaf->initial_values.data;
    const size_t bytes =
        (size_t)th_tensor_numel(t) * th_dtype_size(t->dtype); /* the memory after the elements is uninitialized */
    leaf->version = t->storage->version;
    if (!leaf->is_copy) {
        if (!new_storage(ctx, t, checker->dtype, &converted))
            return;
        th_array target = th_tensor_array(t);
        th_array source = target;
        source.dtype = leaf->original.dtype;
        source.data = leaf->original.storage->data;
        target.data = converted.data;
        th_convert_array(ctx, &target, &source);
        initial_values = converted.data;
    }
    if (initial_values && bytes) {
        if (checker->runs == 1 && (leaf->is_copy || leaf->variable.checked) &&
            memcmp(t->storage->data, initial_values, bytes) != 0)
            th_fail(ctx, TH_ERROR_STATE, operation, "the function changes %s in place", leaf->variable.name);
        memcpy(t->storage->data, initial_values, bytes);
    }
    free_storage(ctx, &converted);
}

void th_leaves_end_run(th_checker *checker)
{
    for (int64_t i = 0; i < checker->temporaries.count; i++) {
        th_leaf *leaf = th_pool_at(&checker->temporaries, i);
        move_out_of_checker(checker, leaf);
        leaf->tensor->check_role = 0;
    }
    checker->temporaries.count = 0;
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        if (leaf->tensor->gradient)
            th_gradient_buffer_release_tensor(leaf->tensor->gradient);
        if (leaf->tensor->storage->version != leaf->version)
            restore_values(checker, leaf);
    }
    free_made_tensors(checker);
}

void th_leaves_end(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        if (!leaf->is_copy) {
            move_out_of_checker(checker, leaf);
            continue;
        }
        free_storage(ctx, &leaf->initial_values);
        leaf->tensor->life = TH_LIFE_LIVE;
    }
    for (int64_t i = 0; i < ctx->owned_tensors.count; i++) {
        th_tensor_impl *t = th_pool_at(&ctx->owned_tensors, i);
        const bool freed_by_function = t->check_role && t->life == TH_LIFE_FREED;
        t->check_role = 0;
        if (freed_by_function) {
            t->life = TH_LIFE_LIVE;
            th_tensor_free(t->handle);
        }
    }
    for (int i = 0; i < checker->n_inputs; i++)
        th_tensor_free(checker->inputs[i]);
    th_pool_destroy(ctx, &checker->leaves);
    th_pool_destroy(ctx, &checker->temporaries);
    th_pool_destroy(ctx, &checker->made_tensors);
}

/* -- elements -- */

static void *element_address(const th_leaf *leaf, int64_t element)
{
    return (char *)th_tensor_data(leaf->tensor) + element * (int64_t)th_dtype_size(leaf->tensor->dtype);
}

double th_checker_element(const th_engine *engine, const th_variable *variable, int64_t element)
{
    const th_leaf *leaf = (const th_leaf *)variable;
    (void)engine;
    return th_number_read(leaf->tensor->dtype, element_address(leaf, element));
}

void th_checker_set_element(th_engine *engine, th_variable *variable, int64_t element, double value)
{
    const th_leaf *leaf = (const th_leaf *)variable;
    (void)engine;
    th_number_write(leaf->tensor->dtype, element_address(leaf, element), value);
}
