/* Attention over documents that share a sequence: the kernel runs once for each document, on its tokens' operands. So
 * the bits are those of separate sequences, and no pair of two documents is computed. */
#include "kernels/sizes.h"
#include "ops/shared/attention.h"
#include "tensor/context.h"

/* The documents of a call. */
typedef struct documents {
    const th_call *call;
    const th_array *numbers; /* (T) or (B, T) */
    int64_t size;            /* bytes of an element of the operands */
} documents;

static bool has_documents(const th_call *call)
{
    const th_attention_attributes *attributes = call->attributes;
    return attributes->rules.documents != 0;
}

/* Returns whether each example has its own documents, and so its own runs. */
static bool has_own_documents(const th_call *call)
{
    return call->input[TH_ATTENTION_MASK].ndim == 2;
}

th_attention th_attention_largest(const th_call *call, const th_attention *a)
{
    th_attention largest = *a;
    if (has_documents(call) && has_own_documents(call))
        largest.size[0] = th_smaller(a->size[0], 1);
    return largest;
}

/* Moves an operand to an example, and to a row and a column: those where a document begins, or 0. */
static void move_to_document(const documents *d, th_attention_array *array, int64_t example, int64_t row,
                             int64_t column)
{
    if (array->data)
        array->data =
            (char *)array->data + (example * array->leading[0] + row * array->row + column * array->column) * d->size;
}

/* Returns the problem of one document. whole: the problem of all examples, or of one. */
static th_attention problem_of_document(const documents *d, const th_attention *whole, int64_t example,
                                        th_key_range tokens)
{
    th_attention a = *whole;
    th_attention_array *const arrays[] = {
        &a.q,          &a.k,          &a.v,         &a.o, &a.log_sum_exp, &a.o_gradient, &a.log_sum_exp_gradient,
        &a.q_gradient, &a.k_gradient, &a.v_gradient};
    int64_t heads = 1;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        move_to_document(d, arrays[i], example, tokens.first, 0);
    move_to_document(d, &a.additive, example, tokens.first, tokens.first);
    move_to_document(d, &a.additive_gradient, example, tokens.first, tokens.first);
    move_to_document(d, &a.alibi, example, 0, 0);
    move_to_document(d, &a.alibi_gradient, example, 0, 0);
    for (int i = 1; i < a.dims; i++)
        heads *= a.size[i];
    a.queries = a.keys = tokens.past - tokens.first;
    a.first_row = example * heads * a.rows_of_head + tokens.first;
    a.first_column = tokens.first;
    return a;
}

/* Runs the kernel on the documents of one example, or of all. The gradient of slopes is a sum over the documents. */
static void run_documents(const documents *d, const th_attention *a, int64_t example, bool add_alibi,
                          th_attention_kernel kernel, void *workspace)
{
    const th_context *ctx = d->call->ctx;
    const int last = d->numbers->ndim - 1;
    const int64_t tokens = d->numbers->size[last], offset = last > 0 ? example * d->numbers->stride[0] : 0;
    for (th_key_range document = {0, 0}; document.past < tokens;) {
        document = th_mask_document(d->numbers, offset, d->numbers->stride[last], document.past, tokens);
        th_attention problem = problem_of_document(d, a, example, document);
        problem.add_alibi = add_alibi || document.first > 0;
        kernel(&ctx->machine, d->call->input[TH_ATTENTION_Q].dtype, &problem, ctx->threads, workspace);
    }
}

void th_attention_run(const th_call *call, const th_attention *a, th_attention_kernel kernel, void *workspace)
{
    const th_array *q = &call->input[TH_ATTENTION_Q];
    const documents d = {call, &call->input[TH_ATTENTION_MASK], (int64_t)th_dtype_size(q->dtype)};
    const bool empty = a->queries == 0 || (has_documents(call) && has_own_documents(call) && a->size[0] == 0);
    if (!has_documents(call) || empty) { /* an empty problem still writes gradients of slopes */
        kernel(&call->ctx->machine, q->dtype, a, call->ctx->threads, workspace);
        return;
    }
    if (!has_own_documents(call)) {
        run_documents(&d, a, 0, a->add_alibi, kernel, workspace);
        return;
    }
    const th_attention one = th_attention_largest(call, a);
    const bool shared = a->alibi_gradient.leading[0] == 0; /* all examples add to the same slopes' gradient */
    for (int64_t example = 0; example < a->size[0]; example++)
        run_documents(&d, &one, example, a->add_alibi || (shared && example > 0), kernel, workspace);
}
