/* Names of tensors, for printing. */
#include <string.h>

#include "autograd/tape.h"
#include "tensor/gradient_buffer.h"
#include "tensor/utf8.h"

static const char operation[] = "set_name";

/* Copies the name into the tensor's own memory: whole characters, as many as fit. */
static void name_owned(th_tensor_impl *t, const char *name)
{
    th_owned_tensor_impl *owned = (th_owned_tensor_impl *)t;
    size_t length = 0;
    while (name[length]) {
        const int next = th_utf8_length((const unsigned char *)name + length);
        const size_t bytes = next ? (size_t)next : 1;
        if (length + bytes >= sizeof owned->name)
            break;
        length += bytes;
    }
    memcpy(owned->name, name, length);
    owned->name[length] = 0;
    owned->label = (th_label){owned->name, NULL};
    t->label = &owned->label;
}

/* Copies the name into memory that th_tape_clear releases. */
static th_status name_result(th_tensor_impl *t, const char *name)
{
    th_context *ctx = t->ctx;
    th_tape *tape = th_tape_of(ctx, operation);
    if (tape == NULL)
        return ctx->error;
    const size_t bytes = sizeof(th_label) + strlen(name) + 1;
    th_label *label = th_bump_allocate(ctx, &tape->names, bytes);
    if (label == NULL)
        return th_fail_memory(ctx, operation, bytes);
    char *text = (char *)(label + 1);
    memcpy(text, name, strlen(name) + 1);
    *label = (th_label){text, NULL};
    t->label = label;
    return TH_OK;
}

th_tensor *th_set_name(th_tensor *handle, const char *name)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, operation, "the tensor");
    if (t == NULL)
        return NULL;
    if (name == NULL) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "the name is NULL");
        return NULL;
    }
    if (t->parameter)
        return handle;
    if (!t->owned)
        return name_result(t, name) == TH_OK ? handle : NULL;
    name_owned(t, name);
    return handle;
}
