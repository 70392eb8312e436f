/* The subcommands sample and eval. Each uses the best checkpoint of a run, or the newest. */
#include <math.h>

#include "checkpoints.h"
#include "sample.h"
#include "shared/system.h"
#include "trainer.h"
#include "tuning.h"

th_status print_loss(trainer *t, const char *path, int64_t begin)
{
    th_token_file *file = th_token_file_open(t->ctx, path, NULL);
    const bool marked = th_token_file_has_marks(file);
    const th_windows_options options = {.begin = begin, .length = chosen.length, .pack = marked};
    th_windows *windows = th_windows_new(file, &options);
    double loss;
    if (windows && evaluate(t, windows, 0, &loss) == TH_OK) {
        const int64_t end = th_token_file_count(file), tokens = end - begin - 1; /* the first is not predicted */
        const int64_t bytes = count_token_bytes(t->tokenizer, file, begin + 1, end);
        const double bits = loss * (double)tokens / log(2) / (double)(bytes > 0 ? bytes : 1);
        if (th_error_code(t->ctx) == TH_OK && marked)
            printf(PROGRAM ": loss=%.4f perplexity=%.4f tokens=%lld\n", loss, exp(loss),
                   (long long)th_windows_targets(windows));
        else if (th_error_code(t->ctx) == TH_OK)
            printf(PROGRAM ": loss=%.4f perplexity=%.4f bits_per_byte=%.4f tokens=%lld\n", loss, exp(loss), bits,
                   (long long)tokens);
    }
    th_windows_free(windows);
    th_token_file_close(file);
    return th_error_code(t->ctx);
}

static int64_t token_count;
static th_status count_file_tokens(trainer *t, const char *path)
{
    th_token_file *file = th_token_file_open(t->ctx, path, NULL);
    token_count = th_token_file_count(file);
    th_token_file_close(file);
    return th_error_code(t->ctx);
}

int64_t count_tokens(trainer *t, const texts *text)
{
    require_ok(t, with_token_file(t, text, count_file_tokens));
    return token_count;
}

/* Prints the loss over a whole text, if it can be measured. For a model folder it first chooses the windows. */
static th_status print_loss_of_tokens(trainer *t, const char *path)
{
    if (count_file_tokens(t, path) || token_count < 2)
        return th_error_code(t->ctx);
    if (t->tokens == NULL) {
        choose_windows(token_count, true);
        make_batch(t);
    }
    return print_loss(t, path, 0);
}

static void print_loss_of_text(trainer *t, const char *path)
{
    texts text = open_texts(&path, 1, NULL);
    chosen.marked = chosen.from && (has_examples_ending(path) || count_example_documents(&text) == text.documents);
    t->quiet = true;
    if (t->tokens) /* of a run; examples need another tensor than texts */
        make_batch(t);
    require_ok(t, with_token_file(t, &text, print_loss_of_tokens));
    close_texts(&text);
    if (token_count < 2)
        give_up(PROGRAM, "the text has a single token; the loss needs at least 2, because the first is not predicted");
}

/* Stores the weights of a run's model. Adapters are not stored: they are not frozen. */
static void store_weights(trainer *t, const char *weights)
{
    if (chosen.lora == 0)
        require_ok(t, th_module_freeze(t->model, true));
    require_ok(t, th_module_store(t->model, parse_storage(weights)));
}

void open_model(trainer *t, const char *run, const model_use *use, bool stored)
{
    const th_precision precision = parse_precision(PROGRAM, use->precision ? use->precision : "float32");
    const char *checkpoint = use->use_newest ? NEWEST_CHECKPOINT : "best.safetensors";
    if (!is_model_folder(run) && !has_checkpoint(run) && access(path_in(run, checkpoint), F_OK) != 0)
        refuse_folder(run, "a run or a model");
    if (!is_model_folder(run)) {
        *t = (trainer){.run = run, .ctx = th_context_new(NULL)};
        open_run(t, run, checkpoint, true);
        if (use->weights)
            store_weights(t, use->weights);
    } else if (use->use_newest) {
        refuse(PROGRAM, "--last is for the checkpoints of a run; this folder has one model: ", run);
    } else {
        open_model_folder(t, run, stored, use->weights);
    }
    if (use->precision)
        require_ok(t, th_set_precision(t->ctx, precision));
    char text[128];
    if (!note_int8(PROGRAM, t->model, STORE_ADVICE) && spell_precision_time(t->ctx, text, sizeof text))
        fprintf(stderr, PROGRAM ": %s\n", text);
}

int sample(int argc, char **argv)
{
    const char *prompt = NULL, *run = NULL, *page = NULL;
    const char *stop = NULL;
    int64_t tokens = 500, top_k = 0, seed = 1, beams = 0, ngram = 0, samples = 1;
    double temperature = -1, top_p = 0, min_p = 0, penalty = 0;
    bool ignore_end = false;
    model_use use = {0};
    const program_option options[] = {
        {"prompt", "what the text begins with (default: a new line)", .text = &prompt},
        {"tokens", "to write", .integer = &tokens, .low = 1, .high = 1e7},
        {"temperature", "0: always the most probable token; -1: 0.8, or 0 with --beams", .real = &temperature,
         .low = -1, .high = 100},
        {"top-k", "draw from the k most probable tokens; 0: from all", .integer = &top_k, .low = 0, .high = 1e9},
        {"top-p", "draw from the most probable tokens with this share of the probability; 0: from all", .real = &top_p,
         .low = 0, .high = 1},
        {"min-p", "draw from tokens at least this share as probable as the most probable one; 0: from all",
         .real = &min_p, .low = 0, .high = 1},
        {"repetition-penalty", "above 1: earlier tokens become less likely; 0: no penalty", .real = &penalty, .low = 0,
         .high = 100},
        {"no-repeat", "no sequence of this many tokens is written twice; 0: no limit", .integer = &ngram, .low = 0,
         .high = 1e6},
        {"stop", "the text ends before this string", .text = &stop},
        {"samples", "of the same prompt; with --beams, the best ones", .integer = &samples, .low = 1, .high = 1000},
        {"beams", "more than 1: beam search, up to the length that the model sees at once", .integer = &beams, .low = 0,
         .high = 1000},
        {"seed", "of the random numbers", .integer = &seed, .low = 0, .high = 1e15},
        {"ignore-eos", "continue after an end-of-text token, up to --tokens", .flag = &ignore_end},
        MODEL_USE_OPTIONS(use),
        {"page", "file for a page (HTML) that shows the model on the first 32 tokens, node by node", .text = &page},
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "language_model sample RUN [OPTION...]\n"
                                "Continues a prompt. RUN is the folder of a run, or of a model\n"
                                "of transformers (config.json, model.safetensors and tokenizer.json).",
                                options, &run, 1) < 1)
        refuse(PROGRAM, "sample needs the folder of a run or a model", "");
    if (prompt && prompt[0] == 0)
        refuse(PROGRAM, "the prompt must not be empty", "");
    if (stop && (stop[0] == 0 || strlen(stop) > 255))
        refuse(PROGRAM, "--stop needs 1 to 255 bytes", "");
    if (page && use.weights)
        refuse(PROGRAM, "a page shows gradients of weights, so it needs them in float32: leave out --weights", "");
    if (temperature < 0)
        temperature = beams > 1 ? 0 : 0.8;
    if (samples > 1 && temperature == 0 && beams < samples)
        refuse(PROGRAM, "samples of temperature 0 are equal; --samples needs a temperature, or as many --beams", "");
    trainer t;
    open_model(&t, run, &use, page == NULL);
    int64_t end_tokens[64];
    int n_end_tokens = 0;
    if (is_model_folder(run))
        require_ok(&t, th_pretrained_end_tokens(t.ctx, run, end_tokens, 64, &n_end_tokens));
    const sample_options sampling = {.generate = {.max_new_tokens = tokens,
                                                  .temperature = temperature,
                                                  .top_k = top_k,
                                                  .top_p = top_p,
                                                  .min_p = min_p,
                                                  .repetition_penalty = penalty,
                                                  .no_repeat_ngram_size = ngram,
                                                  .sequences = samples,
                                                  .beams = beams,
                                                  .seed = (uint64_t)seed},
                                     .ignore_end = ignore_end,
                                     .end_tokens = end_tokens,
                                     .n_end_tokens = n_end_tokens,
                                     .stop = &stop,
                                     .n_stop = stop != NULL};
    first_tokens first = {.count = 0};
    require_ok(&t, generate_sample(t.model, t.tokenizer, prompt, &sampling, stdout, &first));
    putchar('\n');
    finish_output(PROGRAM);
    if (page && first.count < 2)
        give_up(PROGRAM, "a page needs a text of at least 2 tokens");
    if (page && t.run == NULL) /* the page shows gradients of the weights */
        require_ok(&t, th_module_freeze(t.model, false));
    if (page) {
        require_ok(&t, write_page(t.model, t.tokenizer, &first, page));
        print_written(page);
    }
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}

int eval(int argc, char **argv)
{
    const char *text_path = NULL, *run = NULL;
    template_use template = {0};
    model_use use = {0};
    const program_option options[] = {{"text",
                                       "measure on this file, folder or pipe (-), instead of the run's validation "
                                       "text; required for a model that is not a run",
                                       .text = &text_path},
                                      TEMPLATE_OPTIONS(template),
                                      MODEL_USE_OPTIONS(use),
                                      {0}};
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "language_model eval RUN [OPTION...]\n"
            "Prints loss (nats per token), perplexity, and bits per byte of text. RUN is the folder of a\n"
            "run, or of a model of transformers (config.json, model.safetensors and tokenizer.json), or a\n"
            "GGUF file.",
            options, &run, 1) < 1)
        refuse(PROGRAM, "eval needs the folder of a run or a model", "");
    if (!text_path && is_model_folder(run))
        refuse(PROGRAM, "a model folder has no text to measure on; name one with --text FILE: ", run);
    trainer t;
    open_model(&t, run, &use, true);
    choose_template(&template);
    if (t.run)
        make_batch(&t);
    if (text_path)
        print_loss_of_text(&t, text_path);
    else
        require_ok(&t, print_loss(&t, path_in(run, "text.tokens"), chosen.training_tokens));
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}
