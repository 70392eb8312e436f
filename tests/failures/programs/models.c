/* Programs about transformer blocks and models, forward and backward, and about generation. */
#include "subjects.h"

/* -- blocks and stacks -- */

static th_status blocks_setup(program_run *r)
{
    const th_transformer_block_options block = {
        .dropout = 0.1, .attention_dropout = 0.1, .recompute = true, .mlp_width = 12};
    r->model = th_module_list_new(r->ctx);
    th_module_list_add(r->model, th_transformer_block_new(r->ctx, 8, 2, &block));
    th_module_list_add(r->model,
                       th_transformer_encoder_new(r->ctx, 2, 8, 2, &(th_transformer_stack_options){.block = block}));
    r->other = th_transformer_decoder_new(
        r->ctx, 1, 8, 2, &(th_transformer_stack_options){.block.post_norm = true, .final_norm = TH_FINAL_NORM_ALWAYS});
    r->tensor[0] = leaf(r, TH_SHAPE(2, 4, 8), 61);
    return th_error_code(r->ctx);
}

static th_status blocks_step(program_run *r)
{
    th_tensor *memory = th_module_forward(r->model, r->tensor[0]);
    add_tensor(r, memory);
    TRY(th_backward(th_mean(memory, TH_ALL_AXES, NULL), NULL));
    add_gradients(r, r->model);
    th_empty_gradient(r->tensor[0]);
    return th_error_code(r->ctx);
}

static th_status blocks_cross(program_run *r)
{
    th_tensor *weights[1] = {NULL}, *memory_weights[1] = {NULL};
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    const th_transform_options options = {
        .mask = &mask, .memory = r->tensor[0], .weights = weights, .memory_weights = memory_weights};
    th_tensor *y = th_transform(r->other, th_slice(r->tensor[0], 1, 0, 3, 1), &options);
    add_tensor(r, y);
    add_tensor(r, weights[0]);
    add_tensor(r, memory_weights[0]);
    TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    add_gradients(r, r->other);
    th_empty_gradient(r->tensor[0]);
    return th_error_code(r->ctx);
}

const program blocks = {.name = "blocks", .setup = blocks_setup, .step = {blocks_step, blocks_cross, blocks_step}};

/* -- language models -- */

static th_status gpt_setup(program_run *r)
{
    r->model = th_language_model_new(
        r->ctx, &(th_language_model_options){
                    .vocabulary = 13, .length = 8, .width = 8, .heads = 2, .layers = 2, .dropout = 0.1});
    return th_error_code(r->ctx);
}

static th_status llama_setup(program_run *r)
{
    static const double factors[2] = {1, 2};
    const th_rotary_scaling scaling = {.kind = TH_ROTARY_LONGROPE,
                                       .factor = 2,
                                       .original_length = 4,
                                       .short_factor = factors,
                                       .long_factor = factors,
                                       .n_factors = 2};
    const th_transformer_block_options block = {.norm = TH_RMS_NORM,
                                                .gated = true,
                                                .activation = TH_SILU,
                                                .no_bias = true,
                                                .scores = {.rotary = true, .rotary_scaling = scaling},
                                                .mlp_width = 12,
                                                .kv_heads = 1};
    r->model = th_language_model_new(r->ctx, &(th_language_model_options){.vocabulary = 13,
                                                                          .length = 8,
                                                                          .width = 8,
                                                                          .heads = 2,
                                                                          .layers = 1,
                                                                          .positions = TH_POSITIONS_NONE,
                                                                          .untied = true,
                                                                          .block = block});
    return th_error_code(r->ctx);
}

static th_status language_step(program_run *r)
{
    th_tensor *text = integers(r, TH_SHAPE(3, 9), 13, 62);
    th_tensor *tokens = th_slice(text, 1, 0, 8, 1), *next = th_slice(text, 1, 1, 9, 1);
    th_tensor *loss = th_language_model_loss(r->model, tokens, next, NULL);
    add_tensor(r, loss);
    TRY(th_backward(loss, NULL));
    add_gradients(r, r->model);
    add_tensor(r, th_language_model_packed_loss(r->model, tokens, next, integers(r, TH_SHAPE(8), 2, 65), NULL));
    return th_error_code(r->ctx);
}

static th_status language_logits(program_run *r)
{
    const th_language_model_logits_options options = {.rows = integers(r, TH_SHAPE(2), 4, 63)};
    add_number(r, (double)th_language_model_options_of(r->model)->width);
    add_tensor(r, th_language_model_logits(r->model, integers(r, TH_SHAPE(2, 4), 13, 64), &options));
    add_tensor(r, th_module_evaluate(r->model, integers(r, TH_SHAPE(1, 3), 13, 65)));
    th_tensor *lengths = th_from_data(r->ctx, TH_INT32, TH_SHAPE(2), (const int32_t[]){4, 2});
    th_tensor *hidden = th_language_model_hidden_states(r->model, integers(r, TH_SHAPE(2, 4), 13, 67),
                                                        &(th_language_model_logits_options){.lengths = lengths});
    add_tensor(r, th_unit_length(th_pooling(hidden, lengths, TH_POOL_MEAN)));
    add_tensor(r, th_pooling(hidden, NULL, TH_POOL_MAX));
    return th_error_code(r->ctx);
}

static th_status classifier_setup(program_run *r)
{
    static const char *const names[] = {"no", "yes"};
    r->model = th_language_model_new(
        r->ctx, &(th_language_model_options){
                    .vocabulary = 13,
                    .length = 8,
                    .width = 8,
                    .heads = 2,
                    .layers = 1,
                    .bidirectional = true,
                    .head = {.kind = TH_HEAD_SEQUENCE, .labels = 2, .label_names = names, .transform = true}});
    return th_error_code(r->ctx);
}

static th_status classifier_step(program_run *r)
{
    th_tensor *logits = th_language_model_logits(r->model, integers(r, TH_SHAPE(3, 4), 13, 68), NULL);
    th_tensor *loss = th_head_loss(r->model, logits, integers(r, TH_SHAPE(3), 2, 69), NULL);
    add_tensor(r, loss);
    TRY(th_backward(loss, NULL));
    add_gradients(r, r->model);
    return th_error_code(r->ctx);
}

static th_status classifier_metrics(program_run *r)
{
    static const int32_t actual[] = {0, 1, 1}, predicted[] = {0, 1, 0};
    static const bool several[] = {true, false, true};
    static const double x[] = {1, 3, 2}, y[] = {2, 2, 5};
    int64_t matrix[4];
    th_label_counts counts[2];
    th_confusion_matrix(actual, predicted, 3, 2, matrix);
    th_count_classes(matrix, 2, counts);
    add_number(r, th_accuracy(matrix, 2) + th_score_macro(counts, 2).f1 + th_score_micro(counts, 2).f1);
    th_count_labels(several, several, 3, 1, counts);
    add_number(r, th_score_label(counts[0]).recall + th_mean_reciprocal_rank(several, x, 1, 3) + th_pearson(x, y, 3));
    th_count_entities((const char *const[]){"O", "B-A"}, 2, actual, predicted, 3, counts);
    add_number(r, th_score_micro(counts, 2).f1);
    add_number(r, th_spearman(r->ctx, x, y, 3));
    add_number(r, th_roc_auc(r->ctx, several, x, 3));
    return th_error_code(r->ctx);
}

const program classifier = {
    .name = "classifier", .setup = classifier_setup, .step = {classifier_step, classifier_metrics}};
const program gpt = {.name = "gpt", .setup = gpt_setup, .step = {language_step, language_logits, language_step}};
const program llama = {.name = "llama", .setup = llama_setup, .step = {language_step, language_logits}};

/* -- an encoder-decoder -- */

static th_status translator_setup(program_run *r)
{
    r->model = th_transformer_new(r->ctx, &(th_transformer_options){.source_vocabulary = 9,
                                                                    .target_vocabulary = 9,
                                                                    .length = 8,
                                                                    .width = 8,
                                                                    .heads = 2,
                                                                    .encoder_layers = 1,
                                                                    .decoder_layers = 1,
                                                                    .positions = TH_POSITIONS_SINUSOIDAL,
                                                                    .shared_embeddings = true,
                                                                    .dropout = 0.1});
    return th_error_code(r->ctx);
}

static th_status translator_step(program_run *r)
{
    th_tensor *source = integers(r, TH_SHAPE(2, 5), 9, 66), *target = integers(r, TH_SHAPE(2, 4), 9, 67);
    th_tensor *lengths = th_full(r->ctx, TH_INT32, TH_SHAPE(2), 4);
    th_tensor *loss = th_transformer_loss(r->model, source, lengths, target, target, NULL);
    add_tensor(r, loss);
    TRY(th_backward(loss, NULL));
    add_gradients(r, r->model);
    return th_error_code(r->ctx);
}

static th_status translator_decoded(program_run *r)
{
    th_tensor *weights[1] = {NULL};
    th_tensor *memory = th_transformer_encode(r->model, integers(r, TH_SHAPE(2, 5), 9, 68), NULL);
    add_number(r, (double)th_transformer_options_of(r->model)->block.mlp_width);
    add_tensor(r, th_transformer_decode(r->model, integers(r, TH_SHAPE(2, 3), 9, 69), memory,
                                        &(th_transformer_decode_options){.memory_weights = weights}));
    add_tensor(r, weights[0]);
    return th_error_code(r->ctx);
}

const program translator = {
    .name = "translator", .setup = translator_setup, .step = {translator_step, translator_decoded, translator_step}};

/* -- generation -- */

static bool emitted(void *user, int64_t sequence, int64_t token)
{
    program_run *r = user;
    add_number(r, (double)(sequence * 100 + token));
    return true;
}

static th_status generated(program_run *r, th_generate_options options)
{
    th_generated result = {.tokens = NULL};
    options.max_new_tokens = 4;
    options.emit = emitted;
    options.user = r;
    TRY(th_generate(r->model, &options, &result));
    add_tensor(r, result.tokens);
    add_tensor(r, result.lengths);
    add_tensor(r, result.scores);
    add_tensor(r, result.log_probabilities);
    return th_error_code(r->ctx);
}

static th_status generate_greedy(program_run *r)
{
    th_tensor *lengths = th_full(r->ctx, TH_INT32, TH_SHAPE(2), 2);
    return generated(r, (th_generate_options){.prompts = integers(r, TH_SHAPE(2, 3), 13, 70), .lengths = lengths});
}

static th_status generate_sampled(program_run *r)
{
    static const int64_t ends[] = {5, 6};
    return generated(r, (th_generate_options){.prompts = integers(r, TH_SHAPE(2, 7), 13, 71),
                                              .temperature = 1.5,
                                              .top_k = 8,
                                              .top_p = 0.9,
                                              .repetition_penalty = 1.2,
                                              .no_repeat_ngram_size = 5,
                                              .min_p = 0.01,
                                              .sequences = 2,
                                              .log_probabilities = true,
                                              .seed = 3,
                                              .end_tokens = ends,
                                              .n_end_tokens = 2,
                                              .slide = true});
}

static th_status generate_beams(program_run *r)
{
    return generated(r, (th_generate_options){.prompts = integers(r, TH_SHAPE(1, 3), 13, 72), .beams = 3});
}

static th_status generate_translation(program_run *r)
{
    return generated(r, (th_generate_options){.source = integers(r, TH_SHAPE(2, 5), 9, 73), .start = 1, .beams = 2});
}

static th_status generate_translation_greedy(program_run *r)
{
    return generated(r, (th_generate_options){.source = integers(r, TH_SHAPE(2, 5), 9, 74), .start = 1});
}

/* A training step after generating has the bits of one before. */
const program generation = {
    .name = "generation", .setup = gpt_setup, .step = {generate_greedy, generate_sampled, language_step}};
const program beam_search = {.name = "beam_search", .setup = llama_setup, .step = {generate_beams, generate_beams}};
const program translation = {.name = "translation",
                             .setup = translator_setup,
                             .step = {generate_translation, generate_translation_greedy, translator_step}};
