/* A chat program that learns from its user's corrections:
 *
 *     chat_learns MODEL ADAPTER [--lr RATE]      MODEL: a folder of transformers, or a GGUF file
 *
 * A line is a question. A line that begins with = is the right answer to the last question. The program learns it while
 * it waits for the next line. A new line interrupts it at once. At the end of the input it learns "overnight", and
 * writes the folder ADAPTER. The next start continues with this folder. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/models.h>
#include <unistd.h>

#include "options.h"

enum { MAX_LINE = 2000, ANSWER_TOKENS = 100, NIGHT_STEPS = 500 };
static th_context *ctx;
static th_tokenizer *tokenizer;
static bool night;

static void require(bool success)
{
    if (success)
        return;
    fprintf(stderr, "chat_learns: %s\n", th_error_text(ctx));
    exit(1);
}

/* The tuner stops as soon as this is true. */
static bool has_line(void *user)
{
    (void)user;
    return !night && poll(&(struct pollfd){.fd = STDIN_FILENO, .events = POLLIN}, 1, 0) > 0;
}

static bool has_something_to_learn(const th_tune *tune)
{
    const th_tune_progress p = th_tune_progress_of(tune);
    return p.examples > 0 && (p.steps == 0 || p.loss > 0.1);
}

static bool print_token(void *stream, int64_t sequence, int64_t token)
{
    (void)sequence;
    const int32_t id = (int32_t)token;
    return th_tokenizer_write_until(tokenizer, &id, 1, stream, stdout) == TH_OK;
}

static void answer(th_module *model, const th_chat_template *chat, const char *question)
{
    const char *end = th_chat_template_end(chat);
    const int64_t end_token = end ? th_tokenizer_find(tokenizer, end) : -1;
    th_stop_stream stream = {.strings = &end, .count = end != NULL};
    th_token_list prompt = {0};
    require(th_chat_encode(chat, tokenizer, &(th_chat_message){"user", question}, 1, NULL, &prompt, NULL) == TH_OK);
    const int64_t space = th_language_model_options_of(model)->length - (int64_t)prompt.count;
    th_step_begin(ctx);
    const th_generate_options options = {
        .prompts = th_from_data(ctx, TH_INT32, TH_SHAPE(1, (int64_t)prompt.count), prompt.token),
        .max_new_tokens = space < ANSWER_TOKENS ? space : ANSWER_TOKENS,
        .end_tokens = &end_token,
        .n_end_tokens = end_token >= 0,
        .emit = print_token,
        .user = &stream};
    require(th_generate(model, &options, NULL) == TH_OK);
    require(th_tokenizer_write_until_end(tokenizer, &stream, stdout) == TH_OK);
    puts("");
    fflush(stdout);
    th_tape_clear(ctx);
    th_token_list_free(&prompt);
}

int main(int argc, char **argv)
{
    double learning_rate = 0;
    const char *word[2] = {NULL, NULL};
    const program_option options[] = {
        {"lr", "learning rate (default: the tuner's)", .real = &learning_rate, .low = 0, .high = 1}, {0}};
    if (parse_options_and_words(argc, argv, "chat_learns",
                                "chat_learns MODEL ADAPTER [OPTION...]: a chat that learns from its user's corrections",
                                options, word, 2) < 2)
        refuse("chat_learns", "it needs a model and a folder for the adapter", "");
    ctx = th_context_new(NULL);
    th_module *model = th_language_model_from_folder(ctx, word[0], &(th_folder_load_options){.stored = true});
    tokenizer = th_tokenizer_load(ctx, word[0]);
    th_chat_template *chat = th_chat_template_load(ctx, word[0]);
    require(access(word[1], F_OK) != 0 || th_lora_load(model, word[1]) == TH_OK);
    th_tune *tune =
        th_tune_new(model, tokenizer, chat,
                    &(th_tune_options){.learning_rate = learning_rate, .base_model = word[0], .stop = has_line});
    require(tune != NULL);

    char line[MAX_LINE], question[MAX_LINE] = "";
    for (;;) {
        while (has_something_to_learn(tune) && !has_line(NULL))
            require(th_tune_step(tune) == TH_OK);
        if (fgets(line, sizeof line, stdin) == NULL)
            break;
        line[strcspn(line, "\n")] = 0;
        const th_chat_message correction[] = {{"user", question}, {"assistant", line + 1}};
        if (line[0] == '=')
            require(th_tune_add(tune, correction, 2) == TH_OK);
        else
            answer(model, chat, strcpy(question, line));
    }
    night = true;
    for (int step = 0; step < NIGHT_STEPS && has_something_to_learn(tune); step++)
        require(th_tune_step(tune) == TH_OK);
    require(th_tune_progress_of(tune).steps == 0 || th_tune_save(tune, word[1]) == TH_OK);
    th_context_free(ctx);
    finish_output("chat_learns");
}
