/* Scopes: the end of a scope releases every tensor created in it, except the results. Nodes are recorded with the path
 * of the open scopes. The forward of a module is a scope with an owner. */
#include "autograd/tape.h"

#include <string.h>

static th_scope current_scope(const th_context *ctx, void *owner, void (*on_close)(void *owner))
{
    return (th_scope){.first_tensor = ctx->step_tensors.count,
                      .outer_path = ctx->scope_path,
                      .owner = owner,
                      .on_close = on_close,
                      .no_grad_depth = ctx->no_grad_depth,
                      .recompute_outside = ctx->recompute,
                      .first_node = ctx->tape->nodes.count};
}

bool th_scope_open(th_context *ctx, const char *name, void *owner, void (*on_close)(void *owner))
{
    th_tape *tape = th_tape_of(ctx, "scope_begin");
    if (tape == NULL)
        return false;
    if (ctx->scope_depth >= TH_MAX_SCOPES) {
        th_fail(ctx, TH_ERROR_STATE, "scope_begin", "more than %d scopes are open", (int)TH_MAX_SCOPES);
        return false;
    }
    char *path = NULL;
    if (name && name[0]) {
        const size_t outer = strlen(ctx->scope_path), bytes = outer + 1 + strlen(name) + 1;
        path = th_bump_allocate(ctx, &tape->records, bytes);
        if (path == NULL) {
            th_fail_memory(ctx, "scope_begin", bytes);
            return false;
        }
        snprintf(path, bytes, "%s%s%s", ctx->scope_path, outer ? "." : "", name);
    }
    tape->scope[ctx->scope_depth++] = current_scope(ctx, owner, on_close);
    if (path)
        ctx->scope_path = path;
    return true;
}

/* Opens a scope of the user. One that cannot be opened still counts, because th_scope_end will follow. */
static void begin_user_scope(th_context *ctx, const char *name, bool recompute)
{
    if (ctx == NULL)
        return;
    th_use_context(ctx);
    if (th_scope_open(ctx, name, NULL, NULL))
        ctx->recompute |= recompute;
    else if (ctx->tape && ctx->scope_depth < TH_MAX_SCOPES)
        ctx->tape->scope[ctx->scope_depth++] = current_scope(ctx, NULL, NULL);
    else
        ctx->scope_depth++;
}

void th_scope_begin(th_context *ctx, const char *name)
{
    begin_user_scope(ctx, name, false);
}

void th_scope_begin_recomputed(th_context *ctx, const char *name)
{
    begin_user_scope(ctx, name, true);
}

static bool is_result(const th_tensor_impl *t, th_tensor *const *results, int count)
{
    for (int i = 0; i < count; i++)
        if (t->handle == results[i])
            return true;
    return false;
}

/* Closes scopes until `depth` are open. A forward that returned early may have left scopes open, and recording
 * off in them. */
static void close_to_depth(th_context *ctx, int depth)
{
    const int recorded = ctx->scope_depth < TH_MAX_SCOPES ? ctx->scope_depth : TH_MAX_SCOPES;
    for (int i = recorded - 1; ctx->tape && i >= depth; i--) {
        const th_scope *scope = &ctx->tape->scope[i];
        ctx->scope_path = scope->outer_path;
        ctx->recompute = scope->recompute_outside;
        if (scope->owner) {
            ctx->no_grad_depth = scope->no_grad_depth;
            scope->on_close(scope->owner);
        }
    }
    ctx->scope_depth = depth;
}

/* Lets nodes outside a recomputed scope hold its results, so that backward does not recompute the scope for them. */
static void hold_results(const th_scope *scope, th_tensor *const *results, int count)
{
    for (int i = 0; i < count; i++) {
        const th_tensor_impl *t = th_tensor_impl_of(results[i]);
        if (t && t->storage->producer >= scope->first_node)
            t->storage->always_held = true;
    }
}

/* Closes scopes until `depth` are open, and releases the tensors created in them, except the results. */
static void end_scopes(th_context *ctx, int depth, th_tensor *const *results, int count)
{
    if (count < 0 || (count > 0 && results == NULL)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "scope_end", "%d results at %s", count, results ? "an address" : "NULL");
        count = 0;
    }
    const bool recompute = ctx->recompute;
    close_to_depth(ctx, depth);
    if (ctx->tape == NULL || depth >= TH_MAX_SCOPES || ctx->keep_values)
        return;
    if (recompute && !ctx->recompute)
        hold_results(&ctx->tape->scope[depth], results, count);
    const th_pool *tensors = &ctx->step_tensors;
    for (int64_t i = ctx->tape->scope[depth].first_tensor; i < tensors->count; i++) {
        th_tensor_impl *t = th_pool_at(tensors, i);
        if (t->life == TH_LIFE_LIVE && !is_result(t, results, count))
            th_handle_release(t, TH_LIFE_RELEASED);
    }
}

bool th_scope_close(th_context *ctx, const void *owner, th_tensor *const *results, int count)
{
    int i = ctx->scope_depth < TH_MAX_SCOPES ? ctx->scope_depth : TH_MAX_SCOPES;
    while (i > ctx->outer_depths.scopes && ctx->tape && ctx->tape->scope[i - 1].owner != owner)
        i--;
    if (i <= ctx->outer_depths.scopes || ctx->tape == NULL)
        return false;
    end_scopes(ctx, i - 1, results, count);
    return true;
}

void th_scopes_close(th_context *ctx)
{
    close_to_depth(ctx, ctx->outer_depths.scopes);
}

/* Does nothing if the innermost scope is a module's forward. Then the user's th_scope_begin is missing, or
 * th_tape_clear has closed its scope. */
void th_scope_end_all(th_context *ctx, th_tensor *const *results, int count)
{
    if (ctx == NULL || ctx->scope_depth <= ctx->outer_depths.scopes)
        return;
    const int depth = ctx->scope_depth - 1;
    if (ctx->tape == NULL || depth >= TH_MAX_SCOPES || ctx->tape->scope[depth].owner == NULL)
        end_scopes(ctx, depth, results, count);
}

th_tensor *th_scope_end(th_context *ctx, th_tensor *result)
{
    th_scope_end_all(ctx, &result, 1);
    return result;
}
