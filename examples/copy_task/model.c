/* The model of the copy task (model.h). Only its multi-head attention layer mixes positions. */
#include "model.h"

const th_mask copy_causal = {.causal = TH_CAUSAL_TOP_LEFT};
const char copy_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

th_tensor *embed(const copy_model *m, th_tensor *tokens)
{
    return th_add(th_module_forward(m->embedding, tokens), th_slice(m->positions, 0, 0, th_size(tokens, 1), 1));
}

static th_tensor *copy_model_forward(th_module *base, th_tensor *tokens) /* (B, t) -> (B, t, V) */
{
    copy_model *m = (copy_model *)base;
    th_tensor *h = embed(m, tokens);
    if (m->attention)
        h = th_add(h, th_attend(m->attention, h, h, h, &(th_attend_options){.mask = &copy_causal}));
    return th_module_forward(m->output, h);
}

th_module *copy_model_new(th_context *ctx, const copy_settings *settings)
{
    const copy_settings s = *settings;
    copy_model *m = th_module_new(ctx, sizeof *m, "copy_model", copy_model_forward);
    if (m == NULL)
        return NULL;
    const th_multi_head_attention_options options = {.dropout = s.dropout};
    m->settings = s;
    m->embedding = th_module_add(&m->base, "embedding", th_embedding_new(ctx, s.vocab + 1, s.width));
    m->positions = th_module_add_parameter(&m->base, "positions", TH_SHAPE(2 * s.length, s.width));
    if (!s.no_attention)
        m->attention =
            th_module_add(&m->base, "attention", th_multi_head_attention_new(ctx, s.width, s.heads, &options));
    m->output = th_module_add(&m->base, "output", th_dense_new(ctx, s.width, s.vocab + 1, NULL));
    return th_fill_normal(m->positions, 0, 1) == TH_OK ? &m->base : NULL;
}

th_tensor *join_tokens(th_tensor *x, th_tensor *separator, th_tensor *y, int64_t written)
{
    th_tensor *column = th_expand(separator, TH_SHAPE(th_size(x, 0), 1));
    return th_concat((th_tensor *const[]){x, column, th_slice(y, 1, 0, written, 1)}, 3, 1);
}

th_tensor *copy_loss(th_module *model, th_tensor *x, th_tensor *separator, th_tensor **logits)
{
    const int64_t length = th_size(x, 1);
    th_tensor *all = th_module_forward(model, join_tokens(x, separator, x, length - 1));
    th_tensor *written = th_slice(all, 1, length, 2 * length, 1); /* (B, n, V): from the separator on */
    if (logits)
        *logits = written;
    return th_cross_entropy(written, x, NULL);
}

th_tensor *decode(th_module *model, th_tensor *x, th_tensor *separator)
{
    const int64_t length = th_size(x, 1);
    th_tensor *tokens = join_tokens(x, separator, x, 0);
    for (int64_t t = length; t < 2 * length; t++) {
        th_tensor *logits = th_slice(th_module_evaluate(model, tokens), 1, t, t + 1, 1); /* (B, 1, V) */
        tokens = th_concat((th_tensor *const[]){tokens, th_cast(th_argmax(logits, -1), TH_INT32)}, 2, 1);
    }
    return th_slice(tokens, 1, length + 1, 2 * length + 1, 1);
}

double accuracy(th_tensor *x, th_tensor *y, bool whole)
{
    th_tensor *wrong = th_cast(th_not_equal(x, th_cast(y, TH_INT32)), TH_FLOAT64);
    return 1 - th_item(th_mean(whole ? th_max(wrong, TH_AXES(1), NULL) : wrong, TH_ALL_AXES, NULL));
}

const char *spell(th_tensor *tokens, int64_t separator, char text[2 * COPY_MAX_LENGTH + 1])
{
    int32_t token[2 * COPY_MAX_LENGTH];
    const int64_t count = th_numel(tokens);
    text[0] = 0;
    if (th_copy_out(tokens, token, (size_t)count * sizeof *token) != TH_OK)
        return text;
    for (int64_t i = 0; i < count; i++)
        text[i] = token[i] == separator ? '|' : copy_letters[token[i]];
    text[count] = 0;
    return text;
}
