/* What there is to do with a trained model: sample, eval, export. Each takes the best of a run, or the newest. */
#include <math.h>
#include <unistd.h>

#include "sample.h"
#include "trainer.h"

void print_loss(trainer *t, th_token_file *file, int64_t begin)
{
    const th_windows_options options = {.begin = begin, .length = chosen.length};
    th_windows *windows = th_windows_new(file, &options);
    double loss;
    (void)!evaluate(t, windows, 0, &loss);
    expect_no_error(t);
    const int64_t end = th_token_file_count(file), bytes = bytes_of_tokens(t->tokenizer, file, begin + 1, end);
    const double bits = loss * (double)(end - begin - 1) / log(2) / (double)(bytes > 0 ? bytes : 1);
    printf(PROGRAM ": loss=%.4f perplexity=%.4f bits_per_byte=%.4f tokens=%lld\n", loss, exp(loss), bits,
           (long long)(end - begin - 1));
    th_windows_free(windows);
    expect_no_error(t);
}

int sample(int argc, char **argv)
{
    const char *prompt = NULL, *run = NULL;
    int64_t tokens = 500, top_k = 0, seed = 1, beams = 0;
    double temperature = 0.8, top_p = 0, penalty = 0;
    bool last = false;
    const program_option options[] = {
        {"prompt", "what the text begins with (default: a new line)", .text = &prompt},
        {"tokens", "to write", .whole = &tokens, .low = 1, .high = 1e7},
        {"temperature", "0: always the most probable token", .real = &temperature, .low = 0, .high = 100},
        {"top-k", "draw from the k most probable tokens; 0: from all", .whole = &top_k, .low = 0, .high = 1e9},
        {"top-p", "draw from the most probable with this share of the probability; 0: from all", .real = &top_p,
         .low = 0, .high = 1},
        {"repetition-penalty", "above 1: tokens that were there come less often; 0: none", .real = &penalty, .low = 0,
         .high = 100},
        {"beams", "more than 1: beam search, with --temperature 0, up to the length that the model sees at once",
         .whole = &beams, .low = 0, .high = 1000},
        {"seed", "of the random numbers", .whole = &seed, .low = 0, .high = 1e15},
        {"last", "the newest checkpoint, instead of the best", .flag = &last},
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "language_model sample RUN [OPTION...]\n"
                                "Writes text as the model of a run goes on from a prompt.",
                                options, &run, 1) < 1)
        refuse(PROGRAM, "sample needs the folder of a run", "");
    if (prompt && prompt[0] == 0)
        refuse(PROGRAM, "the prompt must not be empty", "");
    trainer t;
    open_run(&t, run, last ? "last.safetensors" : "best.safetensors", true);
    const th_generate_options how = {.most_tokens = tokens,
                                     .temperature = temperature,
                                     .top_k = top_k,
                                     .top_p = top_p,
                                     .repetition_penalty = penalty,
                                     .beams = beams,
                                     .seed = (uint64_t)seed};
    (void)!write_sample(t.model, t.tokenizer, prompt, &how, stdout);
    expect_no_error(&t);
    putchar('\n');
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}

int eval(int argc, char **argv)
{
    const char *text_path = NULL, *run = NULL;
    bool last = false;
    const program_option options[] = {
        {"text", "measure on this file, instead of what the run has held out", .text = &text_path},
        {"last", "the newest checkpoint, instead of the best", .flag = &last},
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "language_model eval RUN [OPTION...]\n"
                                "Prints loss (nats for a token), perplexity, and bits for a byte of text.",
                                options, &run, 1) < 1)
        refuse(PROGRAM, "eval needs the folder of a run", "");
    trainer t;
    open_run(&t, run, last ? "last.safetensors" : "best.safetensors", true);
    if (text_path == NULL) {
        print_loss(&t, th_token_file_open(t.ctx, in_run(run, "text.tokens"), NULL), chosen.training_tokens);
    } else {
        const text_file text = open_text(text_path);
        char path[] = "/tmp/language_model_XXXXXX";
        const int file = mkstemp(path);
        if (file < 0)
            give_up(PROGRAM, "there can be no file of tokens in /tmp");
        close(file);
        th_token_file *tokens =
            encode_text(t.ctx, t.tokenizer, &text, path) == TH_OK ? th_token_file_open(t.ctx, path, NULL) : NULL;
        unlink(path); /* what is mapped stays */
        expect_no_error(&t);
        print_loss(&t, tokens, 0);
    }
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}

int export(int argc, char **argv)
{
    bool last = false, force = false;
    const program_option options[] = {{"last", "the newest checkpoint, instead of the best", .flag = &last},
                                      {"force", "replace a model that is there", .flag = &force},
                                      {0}};
    const char *words[2] = {NULL};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "language_model export RUN FOLDER [OPTION...]\n"
                                "Writes model and tokenizer for Hugging Face transformers:\n"
                                "AutoModelForCausalLM.from_pretrained(FOLDER) reads them.",
                                options, words, 2) < 2)
        refuse(PROGRAM, "export needs the folder of a run and one to write", "");
    if (!force && access(in_run(words[1], "config.json"), F_OK) == 0)
        refuse(PROGRAM, "there is a model already (--force replaces it): ", words[1]);
    trainer t;
    open_run(&t, words[0], last ? "last.safetensors" : "best.safetensors", true);
    const int64_t end = th_tokenizer_find(t.tokenizer, "<|endoftext|>");
    const th_export_options given = {.end_token = end, .has_end_token = end >= 0};
    if (th_language_model_export(t.model, words[1], &given) == TH_OK)
        (void)!th_tokenizer_save(t.tokenizer, words[1]);
    expect_no_error(&t);
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}
