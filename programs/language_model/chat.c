/* The subcommand chat: a conversation with a model, line by line. */
#include <string.h>

#include "checkpoints.h"
#include "sample.h"
#include "shared/system.h"
#include "tuning.h"

enum { MAX_MESSAGES = 1000 };

typedef struct conversation {
    trainer *t;
    th_chat_template *chat;
    th_chat_message message[MAX_MESSAGES]; /* contents are allocated */
    size_t count;
    int64_t end_tokens[66];
    int n_end_tokens;
    bool user_was_told; /* a message said that the oldest messages are left out */
    bool no_history;    /* each question is answered without the messages before it */
} conversation;

static bool is_plain(const conversation *c)
{
    return strcmp(th_chat_template_kind(c->chat), "plain") == 0;
}

/* Removes the oldest question and its answer, but not the system message. Returns false if only one question is
 * left. */
static bool forget_oldest(conversation *c)
{
    const size_t first_question = strcmp(c->message[0].role, "system") == 0 ? 1 : 0;
    if (c->count < first_question + 3)
        return false;
    free((char *)(uintptr_t)c->message[first_question].content);
    free((char *)(uintptr_t)c->message[first_question + 1].content);
    memmove(&c->message[first_question], &c->message[first_question + 2],
            (c->count - first_question - 2) * sizeof c->message[0]);
    c->count -= 2;
    if (!c->user_was_told)
        fprintf(stderr,
                PROGRAM ": the conversation has become too long; from now on the model forgets its beginning\n");
    c->user_was_told = true;
    return true;
}

/* Adds a message. The oldest ones are left out beyond MAX_MESSAGES. */
static void add_message(conversation *c, const char *role, char *content)
{
    if (c->count == MAX_MESSAGES)
        (void)forget_oldest(c);
    if (content == NULL)
        give_up(PROGRAM, "out of memory");
    c->message[c->count++] = (th_chat_message){role, content};
}

/* Writes messages up to the next answer. Sets *length to the number of tokens. Returns false with a message if the
 * template refuses them. */
static bool write_messages(conversation *c, const th_chat_message *messages, size_t count, th_text *prompt,
                           int64_t *length)
{
    th_token_list tokens = {0};
    prompt->count = 0;
    const bool written = th_chat_write(c->chat, messages, count, NULL, prompt) == TH_OK &&
                         th_tokenizer_encode(c->t->tokenizer, prompt->bytes, prompt->count, &tokens) == TH_OK;
    if (!written)
        fprintf(stderr, PROGRAM ": %s\n", th_error_text(c->t->ctx));
    th_error_clear(c->t->ctx);
    *length = (int64_t)tokens.count;
    th_token_list_free(&tokens);
    return written;
}

/* Returns whether the last question, with the system message, leaves space for a token of an answer. Otherwise prints
 * a message. The conversation before it is kept for the next question. */
static bool last_question_fits(conversation *c, th_text *prompt)
{
    const bool has_system = strcmp(c->message[0].role, "system") == 0 && c->count > 1;
    const th_chat_message messages[] = {c->message[0], c->message[c->count - 1]};
    int64_t length = 0;
    if (!write_messages(c, has_system ? messages : messages + 1, has_system ? 2 : 1, prompt, &length))
        return false;
    if (length < chosen.model.length)
        return true;
    fprintf(stderr, PROGRAM ": this message has %lld tokens; the model sees %lld\n", (long long)length,
            (long long)chosen.model.length);
    return false;
}

/* Writes the conversation up to the next answer. The oldest messages are left out to keep space for an answer of
 * `reserve` tokens. Returns false with a message if a single question is too long, or if the template refuses it. */
static bool write_prompt(conversation *c, int64_t reserve, th_text *prompt)
{
    int64_t length = 0;
    bool checked = false;
    for (;;) {
        if (!write_messages(c, c->message, c->count, prompt, &length))
            return false;
        if (length + reserve <= chosen.model.length)
            return true;
        if (!checked && !last_question_fits(c, prompt))
            return false;
        checked = true;
        if (!forget_oldest(c)) /* the prompt has the last question only, and a shorter answer has space */
            return write_messages(c, c->message, c->count, prompt, &length);
    }
}

/* Adds the answer. The template writes the space before it, and the stop string is the beginning of the next
 * question. */
static void add_answer(conversation *c, const th_text *text, const char *stop)
{
    char *answer = strdup(text->bytes ? text->bytes : "");
    char *end = answer && stop ? strstr(answer, stop) : NULL;
    if (end)
        *end = 0;
    if (answer && is_plain(c) && answer[0] == ' ')
        memmove(answer, answer + 1, strlen(answer));
    add_message(c, "assistant", answer);
}

/* Writes the model's answer to standard output, and adds it to the conversation. Returns false, after a message, if the
 * question cannot be answered. */
static bool answer_question(conversation *c, const sample_options *options)
{
    th_text prompt = {0}, text = {0};
    th_token_list tokens = {0};
    static const char *const next_question = "\n\nUser:";
    sample_options sampling = *options;
    const int64_t half_window = chosen.model.length / 2, max_answer = sampling.generate.max_new_tokens;
    if (!write_prompt(c, max_answer < half_window ? max_answer : half_window, &prompt)) {
        free((char *)(uintptr_t)c->message[--c->count].content);
        th_text_free(&prompt);
        return false;
    }
    sampling.without_prompt = true;
    if (is_plain(c)) { /* the model may write the next question too */
        sampling.stop = &next_question;
        sampling.n_stop = 1;
    }
    sampling.answer = &tokens;
    sampling.end_tokens = c->end_tokens;
    sampling.n_end_tokens = c->n_end_tokens;
    require_ok(c->t, generate_sample(c->t->model, c->t->tokenizer, prompt.bytes, &sampling, stdout, NULL));
    putchar('\n');
    fflush(stdout);
    require_ok(c->t, th_tokenizer_decode(c->t->tokenizer, tokens.token, tokens.count, &text));
    add_answer(c, &text, is_plain(c) ? next_question : NULL);
    th_text_free(&prompt);
    th_text_free(&text);
    th_token_list_free(&tokens);
    return true;
}

/* Finds the tokens that end an answer: the end tokens of the model and of the template. */
static void find_end_tokens(conversation *c, const char *folder)
{
    const char *end = th_chat_template_end(c->chat);
    if (folder)
        require_ok(c->t, th_pretrained_end_tokens(c->t->ctx, folder, c->end_tokens, 64, &c->n_end_tokens));
    if (chosen.end_token >= 0)
        c->end_tokens[c->n_end_tokens++] = chosen.end_token;
    const int64_t token = end ? th_tokenizer_find(c->t->tokenizer, end) : -1;
    if (token >= 0)
        c->end_tokens[c->n_end_tokens++] = token;
}

/* Removes all messages except the system message. */
static void forget_all(conversation *c)
{
    const size_t first_question = c->count > 0 && strcmp(c->message[0].role, "system") == 0 ? 1 : 0;
    while (c->count > first_question)
        free((char *)(uintptr_t)c->message[--c->count].content);
}

/* Adds the line as a question and answers it. Returns false, after a message, if that is not possible. */
static bool ask_question(conversation *c, const char *line, size_t length, const sample_options *options)
{
    if (memchr(line, 0, length)) {
        fprintf(stderr, PROGRAM ": a message must not contain a NUL byte\n");
        return false;
    }
    if (c->no_history)
        forget_all(c);
    add_message(c, "user", strdup(line));
    return answer_question(c, options);
}

/* Answers lines until the end of standard input. Returns false if a line of a file or a pipe has no answer. At a
 * terminal the user has read the message. */
static bool answer_lines(conversation *c, const sample_options *options)
{
    const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    bool complete = true;
    char *line = NULL;
    size_t capacity = 0;
    for (;;) {
        if (terminal) {
            fputs("> ", stdout);
            fflush(stdout);
        }
        ssize_t length = getline(&line, &capacity, stdin);
        if (length < 0)
            break;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        if (length > 0)
            complete = ask_question(c, line, (size_t)length, options) && complete;
    }
    if (ferror(stdin))
        give_up_file("standard input", "read");
    if (terminal)
        putchar('\n');
    free(line);
    return complete || terminal;
}

int chat(int argc, char **argv)
{
    const char *run = NULL, *system = NULL;
    template_use template = {0};
    int64_t tokens = 300, top_k = 0, seed = 1;
    double temperature = 0.8, top_p = 0.95;
    bool no_history = false;
    model_use use = {0};
    const program_option options[] = {
        {"system", "a system message, such as \"Answer in one sentence.\"", .text = &system},
        TEMPLATE_OPTIONS(template),
        {"no-history", "answer each line without the lines and answers before it", .flag = &no_history},
        {"tokens", "of the longest answer", .integer = &tokens, .low = 1, .high = 1e6},
        {"temperature", "0: always the most probable token", .real = &temperature, .low = 0, .high = 100},
        {"top-k", "draw from the k most probable tokens; 0: from all", .integer = &top_k, .low = 0, .high = 1e9},
        {"top-p", "draw from the most probable tokens with this share of the probability; 0: from all", .real = &top_p,
         .low = 0, .high = 1},
        {"seed", "of the random numbers", .integer = &seed, .low = 0, .high = 1e15},
        MODEL_USE_OPTIONS(use),
        {0}};
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "language_model chat RUN [OPTION...]\n"
            "Answers each line of standard input, until its end (Ctrl-D). The lines are one conversation, also in a "
            "file\n"
            "or a pipe: the model reads the lines and answers before each line, except with --no-history. RUN is the\n"
            "folder of a run, or of a model of transformers, or a GGUF file. The status is 1 if a line of a file or a "
            "pipe has no "
            "answer.",
            options, &run, 1) < 1)
        refuse(PROGRAM, "chat needs the folder of a run or a model", "");
    trainer t;
    open_model(&t, run, &use, true);
    chosen.template_date = NULL; /* of the run's examples; a conversation is of today */
    choose_template(&template);
    static conversation c;
    c = (conversation){.t = &t, .chat = load_chat_template(&t, chat_template_folder(&t)), .no_history = no_history};
    find_end_tokens(&c, chosen.from && is_model_folder(chosen.from) ? chosen.from : NULL);
    if (system)
        add_message(&c, "system", strdup(system));
    const sample_options sampling = {.generate = {.max_new_tokens = tokens,
                                                  .temperature = temperature,
                                                  .top_k = top_k,
                                                  .top_p = top_p,
                                                  .seed = (uint64_t)seed}};
    const bool complete = answer_lines(&c, &sampling);
    for (size_t i = 0; i < c.count; i++)
        free((char *)(uintptr_t)c.message[i].content);
    th_context_free(t.ctx);
    return complete ? EXIT_SUCCESS : EXIT_FAILURE;
}
