/* th_tape_write_python: the tape as a Python script that checks it. The script begins with compute(), which has a line
 * for each node (calls.c). Then come the functions of its operations and the comparison (functions.c), and
 * the library's numbers (numbers.c). */
#include "export/python/script.h"

#include <inttypes.h>

#include "autograd/gradient.h"
#include "io/text_file.h"
#include "tapehead/export.h"
#include "tensor/memory.h"

static const char operation[] = "tape_write_python";

/* -- checks -- */

static th_status check_nodes(const th_script *script)
{
    th_context *ctx = script->listing.ctx;
    for (int64_t n = 0; n < script->listing.nodes; n++) {
        const th_node *node = th_listing_node(&script->listing, n);
        if (!th_script_supports(node->op))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "node %" PRId64 " is %s, recorded at %s:%d; scripts have formulas for the library's own "
                           "operations only",
                           n, node->op->name, node->file ? node->file : "?", node->line);
    }
    return TH_OK;
}

/* Finds the tensor that was differentiated. */
static th_status find_start(th_script *script)
{
    th_context *ctx = script->listing.ctx;
    const th_tape_passes *passes = &ctx->tape->passes;
    if (th_listing_require_one_pass(&script->listing, operation) != TH_OK)
        return ctx->error;
    script->start = passes->count ? passes->start : NULL;
    th_array gradient;
    if (script->start && !th_listing_gradient(script->start, &gradient) && th_tensor_numel(script->start) > 0)
        return th_fail(ctx, TH_ERROR_STATE, operation,
                       "the gradient with which backward began was released; call th_keep_values before backward");
    return TH_OK;
}

/* -- the numbers -- */

/* Returns whether the script compares this tensor's gradient, and sets *array to it. A view's gradient is a part of
 * another one. The gradient of the start is given. */
static bool is_compared(const th_script *script, int64_t tensor, th_array *array)
{
    const th_tensor_impl *t = script->listing.tensor[tensor].tensor;
    const th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    const bool has_own_gradient =
        t->gradient != NULL && t != script->start && (script->start == NULL || script->start->gradient_view.root != t);
    if (!has_own_gradient || !script->variable[tensor].reached || !th_listing_gradient(t, array))
        return false;
    return buffer->kind == TH_GRADIENT_OF_RESULT || !script->listing.ctx->tape->passes.requested;
}

static void put_leaves(th_script *script)
{
    char name[TH_SCRIPT_NAME];
    fputs("LEAVES = {\n", script->file);
    for (int64_t i = 0; i < script->listing.tensors; i++) {
        const th_array array = th_tensor_array(script->listing.tensor[i].tensor);
        if (script->listing.tensor[i].producer < 0)
            th_script_put_entry(script->file, th_script_variable_name(script, i, name), &array);
    }
    for (int64_t n = 0; n < script->listing.nodes; n++) {
        th_array kept_elements;
        if (!th_script_has_dropout(th_listing_node(&script->listing, n)))
            continue;
        if (th_script_make_kept(script, th_listing_node(&script->listing, n), &kept_elements) != TH_OK)
            return;
        snprintf(name, sizeof name, "kept%" PRId64, n);
        th_script_put_entry(script->file, name, &kept_elements);
    }
    if (script->start) {
        th_array cotangent;
        th_gradient_array(script->start, &cotangent);
        th_script_put_entry(script->file, "cotangent", &cotangent);
    }
    fputs("}\n\n", script->file);
}

static void put_results(const th_script *script)
{
    char name[TH_SCRIPT_NAME];
    fputs("VALUES = {\n", script->file);
    for (int64_t i = 0; i < script->listing.tensors; i++) {
        const th_array array = th_tensor_array(script->listing.tensor[i].tensor);
        if (script->listing.tensor[i].producer >= 0)
            th_script_put_entry(script->file, th_script_variable_name(script, i, name), &array);
    }
    fputs("}\n\nGRADIENTS = {\n", script->file);
    for (int64_t i = script->listing.tensors - 1; i >= 0;
         i--) { /* in the order of backward: the first wrong gradient is the cause */
        th_array array;
        if (is_compared(script, i, &array))
            th_script_put_entry(script->file, th_script_variable_name(script, i, name), &array);
    }
    fputs("}\n\n", script->file);
}

/* -- the tolerance -- */

typedef struct rounding {
    const char *tolerance, *unit, *numbers;
} rounding;

/* Returns the tolerance for the least precise numbers of the tape. */
static rounding tape_rounding(const th_script *script)
{
    th_precision precision = TH_PRECISION_FLOAT32;
    bool float32 = false;
    for (int64_t n = 0; n < script->listing.nodes; n++) {
        const th_node *node = th_listing_node(&script->listing, n);
        float32 |= th_node_output(node, 0)->tensor->dtype == TH_FLOAT32;
        for (int i = 0; i < node->n_inputs; i++)
            float32 |= th_node_input(node, i)->tensor && th_node_input(node, i)->tensor->dtype == TH_FLOAT32;
        /* Stored weights are not exported, so that products of a tape in int8 are float32. */
        if (node->precision > precision && node->precision != TH_PRECISION_INT8)
            precision = node->precision;
    }
    if (!float32)
        return (rounding){"1e-11", "2.0**-52", "float64"};
    if (precision == TH_PRECISION_BFLOAT16)
        return (rounding){"5e-2", "2.0**-8", "products of bfloat16 numbers"};
    if (precision == TH_PRECISION_BFLOAT16X3)
        return (rounding){"1e-3", "2.0**-16", "products of pairs of bfloat16 numbers"};
    return (rounding){"1e-4", "2.0**-23", "float32"};
}

/* -- the script -- */

static void put_beginning(const th_script *script, const char *title)
{
    fputs("#!/usr/bin/env python3\n\"\"\"", script->file);
    th_script_put_text(script->file, title ? title : "A tape of Tapehead");
    fprintf(script->file,
            "\n\nWritten by Tapehead %s. This script computes the tape again with %s in float64: every value from the\n"
            "leaves, and every gradient %s.\n"
            "It compares each number with the library's, at the end of this file. The exit status is 0 if they\n"
            "agree, else 1.\n\n"
            "y12 is the result of node 12, y12_1 its second result, p_... a parameter, x... another leaf%s.\n"
            "The functions th_... have the names of the library's operations.\n\"\"\"\n\n",
            th_version(), script->numpy ? "NumPy" : "PyTorch",
            script->numpy ? "by the rule of each node, from the last to the first" : "with torch.autograd",
            script->numpy ? ", d_... a gradient" : "");
    fprintf(script->file, "import math\nimport re\nimport struct\nimport sys\nfrom base64 import b64decode\n\n%s\n\n\n",
            script->numpy ? "import numpy as np\n\nnp.seterr(all=\"ignore\")" : "import torch");
}

static void put_settings(const th_script *script)
{
    const rounding r = tape_rounding(script);
    fprintf(
        script->file,
        "\n\nLIBRARY = \"%s\"\n\n"
        "# A number may differ by TOLERANCE, for the rounding of %s, times the largest number of its tensor.\n"
        "# Numbers that cancel have the rounding errors of their terms. If a tensor differs by more, compute() runs\n"
        "# again, ROUNDED_RUNS times, and changes every result by UNIT. A number may then differ by SAFETY times the\n"
        "# largest change of its tensor.\nTOLERANCE = %s\nUNIT = %s\nSAFETY = 4\nROUNDED_RUNS = 3\n%s\n"
        "# -- the library's numbers: type, shape, elements in row-major order (decimal, or bytes in base64) --\n\n",
        script->numpy ? "NumPy" : "PyTorch", r.numbers, r.tolerance, r.unit,
        script->numpy ? "RANDOM = np.random.default_rng(1)\n" : "");
}

static void put_script(th_script *script, const char *title)
{
    put_beginning(script, title);
    th_script_put_compute(script);
    th_script_put_functions(script);
    put_settings(script);
    put_leaves(script);
    put_results(script);
    fputs("sys.exit(main())\n", script->file);
}

static th_status write_file(th_script *script, const char *path, const char *title)
{
    th_context *ctx = script->listing.ctx;
    th_atomic_file file;
    if (th_text_file_begin(&file, ctx, path, operation) != TH_OK)
        return ctx->error;
    script->file = file.file;
    put_script(script, title);
    return th_text_file_end(&file, !ctx->error, ctx, path, operation);
}

th_status th_tape_write_python(th_context *ctx, const char *path, const th_python_options *options)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (path == NULL && !th_failed(ctx))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
    const th_python_options settings = options ? *options : (th_python_options){.numpy = false};
    th_script script = {.numpy = settings.numpy};
    if (th_listing_begin(&script.listing, ctx, operation) == TH_OK && check_nodes(&script) == TH_OK &&
        find_start(&script) == TH_OK && th_script_name_variables(&script) == TH_OK)
        write_file(&script, path, settings.title);
    th_release(ctx, script.variable, script.bytes);
    th_listing_end(&script.listing);
    return ctx->error;
}
