/* Lists the memory of a module's gradients, for programs that exchange them with their own functions. */
#include "autograd/gradient.h"
#include "nn/module.h"
#include "tensor/gradient_buffer.h"
#include "tensor/parameter.h"

/* Marks the entries of the tree's parameters that have a gradient, or removes the marks. */
static void mark_entries(const th_module *m, bool marked)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const th_tensor_impl *t = th_tensor_impl_of(p.tensor);
        th_parameter_entry *entry = th_parameter_entry_of(t);
        entry->mark = marked && th_has_gradient(t) ? entry : NULL;
        if (entry->mark)
            th_storage_mark_changed(t->gradient->memory); /* the caller may write to it */
    }
}

int64_t th_module_gradients(th_module *m, th_gradient_range *ranges, int64_t capacity)
{
    if (!th_module_usable(m, "module_gradients"))
        return 0;
    int64_t count = 0;
    mark_entries(m, true);
    for (const th_parameter_block *block = m->ctx->parameter_blocks; block; block = block->next)
        for (const th_parameter_entry *entry = block->first; entry; entry = entry->next) {
            const bool continues = entry->mark && entry->previous && entry->previous->mark &&
                                   entry->previous->offset + entry->previous->bytes == entry->offset;
            const int64_t numel = (int64_t)(entry->bytes / th_dtype_size(block->dtype));
            if (entry->mark == NULL)
                continue;
            if (!continues && count < capacity)
                ranges[count] = (th_gradient_range){.data = block->gradient ? block->gradient + entry->offset : NULL,
                                                    .dtype = block->dtype};
            count += !continues;
            if (count <= capacity)
                ranges[count - 1].count += numel;
        }
    mark_entries(m, false);
    return count;
}
