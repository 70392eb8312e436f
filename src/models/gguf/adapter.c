/* Writes adapters as a GGUF file that llama.cpp adds to a base model: general.type is "adapter", adapter.type "lora". For
 * the weight NAME the file has NAME.lora_a (r, in) and NAME.lora_b (out, r). llama.cpp adds alpha / r times their
 * product, with one adapter.lora.alpha for all. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/gguf/export.h"
#include "models/gguf/options.h"
#include "models/gguf/writer.h"
#include "models/saved_models/peft.h"
#include "tapehead/gguf.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char operation[] = "lora_export_gguf";

/* Multiplies B where an adapter's scale times its rank is not alpha, and adds A and B to the tensors of the file. */
static void add_tensors(th_gguf_export *e, const th_peft_adapters *list, double alpha, th_foreign_tensor *source)
{
    int64_t tensor = 0;
    for (int64_t i = 0; i < list->modules; i++) {
        const th_peft_adapter *m = &list->module[i];
        const double factor = m->scale * (double)m->rank / alpha;
        for (int j = 0; m->adapted && j < 2; j++, tensor++, source++) {
            th_tensor *values = list->tensor[tensor].tensor;
            if (j == 1 && factor != 1)
                values = th_scale(values, factor);
            if (values == NULL)
                return;
            *source =
                (th_foreign_tensor){.name = m->name[j], .shape = th_shape_of(values), .places = 1, .view = {values}};
            th_gguf_add_tensor(e, source->name, source);
        }
    }
}

/* Writes the values. Returns NULL if out of memory; the caller frees the text. */
static char *write_values(const th_gguf_export *e, double alpha, size_t *bytes, int64_t *count)
{
    static const char type[] = "adapter", lora[] = "lora";
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);
    if (file == NULL)
        return NULL;
    th_gguf_writer w = {.file = file};
    th_gguf_put_text(&w, "general.architecture", e->architecture->name, strlen(e->architecture->name));
    th_gguf_put_text(&w, "general.type", type, sizeof type - 1);
    th_gguf_put_text(&w, "adapter.type", lora, sizeof lora - 1);
    th_gguf_put_float32(&w, "adapter.lora.alpha", alpha);
    th_gguf_put_uint32(&w, "general.file_type", th_gguf_file_type(TH_FLOAT32));
    *count = w.values;
    if (fclose(file) == 0)
        return text;
    free(text);
    return NULL;
}

/* Returns the alpha of the first adapter, whose B keeps its bits. */
static double alpha_of(const th_peft_adapters *list)
{
    int64_t i = 0;
    while (!list->module[i].adapted)
        i++;
    return list->module[i].scale * (double)list->module[i].rank;
}

static th_status write_file(th_gguf_export *e, const th_peft_adapters *list, const char *path)
{
    const size_t count = (size_t)list->tensors;
    const double alpha = alpha_of(list);
    size_t bytes = 0;
    int64_t values = 0;
    th_foreign_tensor *sources = th_allocate(e->ctx, count * sizeof *sources);
    e->out_bytes = count * sizeof *e->out;
    e->out = th_allocate(e->ctx, e->out_bytes);
    char *text = sources && e->out ? write_values(e, alpha, &bytes, &values) : NULL;
    if (text == NULL)
        (void)th_fail_memory(e->ctx, operation, count * sizeof *sources);
    else
        add_tensors(e, list, alpha, sources);
    if (!th_failed(e->ctx))
        (void)th_gguf_publish(e, path, text, bytes, values);
    free(text);
    th_release(e->ctx, sources, count * sizeof *sources);
    th_release(e->ctx, e->out, e->out_bytes);
    return th_error_code(e->ctx);
}

/* Lists the adapters under the names of the architecture, and writes them. */
static th_status export_adapters(th_gguf_export *e, th_module *model, const char *path)
{
    static const th_peft_naming naming = {"", ".weight.lora_a", ".weight.lora_b"};
    const th_family family = th_gguf_family(e->architecture);
    th_peft_slices slices;
    th_peft_adapters list = {.module = NULL};
    th_status status = th_peft_slices_list(model, &family, e->architecture->neighbors, operation, &slices);
    if (status == TH_OK && slices.count == 0)
        status =
            th_fail(e->ctx, TH_ERROR_ARGUMENT, operation, "%s has no names for all projections", e->architecture->name);
    if (status == TH_OK)
        status = th_peft_adapters_list(e->ctx, operation, &slices, &naming, &list);
    if (status == TH_OK)
        status = write_file(e, &list, path);
    th_peft_adapters_end(e->ctx, &list);
    th_peft_slices_end(e->ctx, &slices);
    return status;
}

th_status th_lora_export_gguf(th_module *model, const char *path, const char *architecture)
{
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = model->ctx;
    const th_language_model_options *m = th_require_language_model(model, operation);
    if (m == NULL)
        return th_error_code(ctx);
    if (th_refuse_in_check(ctx, operation) != TH_OK ||
        th_gguf_check_target(ctx, operation, path, architecture) != TH_OK)
        return th_error_code(ctx);
    if (th_lora_count(model) == 0)
        return th_fail(ctx, TH_ERROR_STATE, operation, "%s has no adapter", model->type);
    const th_language_model_options normal = th_normal_options(m);
    th_gguf_export e = {.ctx = ctx, .operation = operation, .options = &normal, .type = TH_FLOAT32};
    e.architecture = th_gguf_choose_architecture(ctx, operation, m, architecture);
    if (e.architecture == NULL)
        return th_error_code(ctx);
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    (void)export_adapters(&e, model, path);
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    return th_error_code(ctx);
}
