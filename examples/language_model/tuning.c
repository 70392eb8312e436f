/* Tuning a pretrained model: see tuning.h. */
#include "tuning.h"

#include <math.h>
#include <string.h>

void set_tuning_defaults(void)
{
    chosen.marked = true;
    chosen.lora = 16;
    chosen.epochs = 3;
    chosen.weight_decay = 0;
    chosen.beta2 = 0.999;
    chosen.validation = 0.05;
    chosen.eval_batches = 0;
    chosen.sample_tokens = 100;
}

void choose_steps(const trainer *t)
{
    enum { EVALUATIONS = 10 };
    if (chosen.epochs == 0)
        return;
    const double windows = (double)th_windows_count(t->training) * chosen.epochs;
    const double steps = ceil(windows / (double)(chosen.batch * chosen.accumulate));
    if (!was_given.steps)
        chosen.steps = steps < 1 ? 1 : steps > 1e9 ? 1000000000 : (int64_t)steps;
    if (!was_given.warmup)
        chosen.warmup = chosen.steps / 33; /* 3 % */
    if (!was_given.eval_every)
        chosen.eval_every = chosen.steps < EVALUATIONS ? 1 : chosen.steps / EVALUATIONS;
    if (chosen.local_steps > 0)
        check_local_steps();
}

/* -- data -- */

bool is_instructions(const char *path)
{
    static const char *const endings[] = {".jsonl", ".json", ".ndjson"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t count = strlen(endings[i]);
        if (length > count && strcmp(path + length - count, endings[i]) == 0)
            return true;
    }
    return false;
}

/* Returns a copy of a token's text; NULL for an unknown token. The caller frees it. */
static char *copy_token(const trainer *t, int64_t token)
{
    size_t bytes = 0;
    const char *text = token >= 0 ? th_tokenizer_bytes(t->tokenizer, token, &bytes) : NULL;
    return text ? strndup(text, bytes) : NULL;
}

/* Ends the program with the reason why a template cannot be used, and advice. */
static void refuse_template(const trainer *t)
{
    begin_last_message(PROGRAM);
    fprintf(stderr, "%s\n" PROGRAM ": --chat KIND names the kind of a template; --chat plain uses none\n",
            th_error_text(t->ctx));
    exit(EXIT_FAILURE);
}

th_chat_template *choose_chat(trainer *t, const char *folder)
{
    char *end = copy_token(t, chosen.end_token);
    th_chat_template *chat = th_chat_template_load_as(t->ctx, folder, chosen.chat);
    if (chat == NULL && th_error_code(t->ctx) == TH_ERROR_FILE && chosen.chat == NULL)
        refuse_template(t);
    expect_no_error(t);
    if (th_chat_template_end(chat) == NULL && end) /* a folder without tokenizer_config.json */
        chat = th_chat_template_new(t->ctx, th_chat_template_kind(chat), NULL, end);
    free(end);
    expect_no_error(t);
    return chat;
}

th_status encode_instructions(trainer *t, const texts *text, const char *folder, const char *path)
{
    th_chat_template *chat = choose_chat(t, folder);
    th_token_writer *writer = th_token_writer_open_marked(t->ctx, path, th_tokenizer_size(t->tokenizer));
    th_instruction_counts counts = {0};
    th_status status = writer ? TH_OK : th_error_code(t->ctx);
    char name[300];
    for (size_t i = 0, begin = 0; i < text->documents && status == TH_OK; begin = text->end[i++]) {
        if (text->documents == 1)
            snprintf(name, sizeof name, "%.250s", text->name);
        else
            snprintf(name, sizeof name, "%.200s, file %zu", text->name, i + 1);
        status = th_instructions_append(chat, t->tokenizer, text->bytes + begin, text->end[i] - begin, name, writer,
                                        &counts);
    }
    if (status == TH_OK && !t->quiet)
        fprintf(stderr,
                PROGRAM ": %lld examples, chat template %s: %lld tokens, of which %lld count; the longest has "
                        "%lld\n",
                (long long)counts.examples, th_chat_template_kind(chat), (long long)counts.tokens,
                (long long)counts.targets, (long long)counts.longest);
    if (status == TH_OK && th_chat_template_end(chat) == NULL)
        fprintf(stderr, PROGRAM ": the model has no end-of-text token, so answers will not end by themselves\n");
    th_chat_template_free(chat);
    if (status != TH_OK)
        th_token_writer_free(writer);
    return status == TH_OK ? th_token_writer_close(writer) : status;
}

/* -- documents of a file with marks -- */

/* Calls `use` for the first token of each document, in order, until it returns false. */
static void each_document(trainer *t, th_token_file *file, bool (*use)(int64_t token, int64_t *state), int64_t *state)
{
    enum { SOME = 4096 };
    unsigned char marks[SOME];
    const int64_t count = th_token_file_count(file);
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < SOME ? count - at : SOME;
        expect(t, th_token_file_read_marks(file, at, n, marks));
        for (int64_t i = 0; i < n; i++)
            if (marks[i] & TH_TOKEN_BEGINS && !use(at + i, state))
                return;
    }
}

/* state: the wanted token; the last beginning of a document up to there, at least the second one; documents. */
static bool find_split(int64_t token, int64_t *state)
{
    state[2]++;
    if (token > 0 && (token <= state[0] || state[1] == 0))
        state[1] = token;
    return token <= state[0] || state[1] == 0;
}

int64_t split_documents(trainer *t, th_token_file *file)
{
    const double held_out = ceil((double)th_token_file_count(file) * chosen.validation);
    int64_t state[3] = {th_token_file_count(file) - (int64_t)held_out};
    each_document(t, file, find_split, state);
    if (state[1] == 0)
        give_up(PROGRAM, "tuning needs at least 2 examples: the last ones are only for measuring (--validation)");
    return state[1];
}

/* state: the beginning of the document before, and the longest so far. */
static bool find_longest(int64_t token, int64_t *state)
{
    state[1] = token - state[0] > state[1] ? token - state[0] : state[1];
    state[0] = token;
    return true;
}

int64_t longest_document(trainer *t, th_token_file *file)
{
    int64_t state[2] = {0};
    each_document(t, file, find_longest, state);
    (void)find_longest(th_token_file_count(file), state);
    return state[1];
}

/* -- reports -- */

void print_start(const trainer *t, double loss)
{
    printf(PROGRAM ": the loss before tuning is %.4f (perplexity %.4g), over %lld tokens of validation examples\n",
           loss, exp(loss), (long long)th_windows_targets(t->validation));
    fflush(stdout);
}
