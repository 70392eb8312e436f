/* A picture of what each token of a text attends to. */
#include <string.h>

#include "encoder/encoder.h"

enum { MOST_TOKENS = 24, MOST_LAYERS = 4, NAME_SIZE = 64 };

/* Makes the batch of one example, cut to a length that a picture can show. */
static th_status make_pictured_batch(const encoder *e, const selection *one, th_text_batch *batch)
{
    encoder shown = *e;
    shown.length = e->length < MOST_TOKENS ? e->length : MOST_TOKENS;
    const char *const *text = one->data->text + one->data->text_begin[one->rows[0]];
    if (e->task == TASK_EMBED)
        return th_text_batch_make(e->tokenizer, text, 1, shown.length, batch);
    if (e->task == TASK_SPANS)
        return th_text_batch_make_pairs(e->tokenizer, text, 1, shown.length, batch);
    return make_text_batch(&shown, one, batch);
}

/* Sets name[i] to the text of token i, without spaces around it. */
static void name_tokens(const encoder *e, const th_tensor *tokens, char name[][NAME_SIZE], const char **names)
{
    const int32_t *token = th_data_const(tokens);
    for (int64_t i = 0; i < th_size(tokens, 1); i++) {
        size_t bytes = 0;
        const char *text = th_tokenizer_bytes(e->tokenizer, token[i], &bytes);
        for (; bytes > 0 && *text == ' '; text++)
            bytes--;
        snprintf(name[i], NAME_SIZE, "%.*s", bytes < NAME_SIZE ? (int)bytes : NAME_SIZE - 1, text ? text : "");
        names[i] = name[i];
    }
}

/* Draws the mean of the heads' weights of some layers, from the first to the last. weight: [layers] (1, H, T, T). */
static th_status draw_layers(const encoder *e, th_tensor *const *weight, int64_t layers, const th_tensor *tokens,
                             const char *path)
{
    char name[MOST_TOKENS][NAME_SIZE], panel[MOST_LAYERS][NAME_SIZE];
    const char *names[MOST_TOKENS], *panels[MOST_LAYERS];
    th_tensor *map[MOST_LAYERS] = {NULL};
    const int count = layers < MOST_LAYERS ? (int)layers : MOST_LAYERS;
    for (int i = 0; i < count; i++) {
        const int64_t layer = count > 1 ? i * (layers - 1) / (count - 1) : 0;
        map[i] = th_cast(th_mean(weight[layer], TH_AXES(1), NULL), TH_FLOAT32); /* (1, T, T) */
        snprintf(panel[i], NAME_SIZE, "layer %lld of %lld", (long long)layer + 1, (long long)layers);
        panels[i] = panel[i];
    }
    name_tokens(e, tokens, name, names);
    th_tensor *maps = count > 1 ? th_concat(map, count, 0) : map[0];
    const th_heatmap_options options = {.title = "What each token attends to: the mean of all heads",
                                        .row_label = "attends",
                                        .column_label = "is attended to",
                                        .panel_names = panels,
                                        .row_names = names,
                                        .column_names = names,
                                        .high = 1};
    return maps ? th_picture_heatmaps(maps, path, &options) : th_error_code(e->ctx);
}

/* Returns the first example with at most as many words as a picture can show, or the first one. */
static int64_t choose_example(const selection *s)
{
    enum { MOST_BYTES = 60, MOST_TRIES = 100 };
    for (int64_t i = 0; i < s->count && i < MOST_TRIES; i++) {
        size_t bytes = 0;
        for (int64_t j = s->data->text_begin[s->rows[i]]; j < s->data->text_begin[s->rows[i] + 1]; j++)
            bytes += strlen(s->data->text[j]);
        if (bytes <= MOST_BYTES)
            return i;
    }
    return 0;
}

th_status draw_attention(const encoder *e, const selection *s, const char *path)
{
    const th_language_model_options *o = th_language_model_options_of(e->model);
    const selection one = part_of(s, choose_example(s), 1);
    th_tensor **weight = calloc((size_t)o->layers, sizeof *weight);
    th_text_batch batch;
    if (weight == NULL)
        give_up(PROGRAM, "out of memory");
    th_no_grad_begin(e->ctx);
    th_set_training(e->ctx, false);
    th_status status = make_pictured_batch(e, &one, &batch);
    if (status == TH_OK && th_language_model_hidden_states(
                               e->model, batch.tokens,
                               &(th_language_model_logits_options){.types = o->token_types > 0 ? batch.types : NULL,
                                                                   .weights = weight}) != NULL)
        status = draw_layers(e, weight, o->layers, batch.tokens, path);
    th_tape_clear(e->ctx);
    th_set_training(e->ctx, true);
    th_no_grad_end(e->ctx);
    free(weight);
    return status ? status : th_error_code(e->ctx);
}
