/* Tuning a pretrained model: see tuning.h. */
#include "tuning.h"
#include "shared/system.h"

#include <math.h>
#include <string.h>
#include <time.h>

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

/* The options whose defaults depend on the data or the model. */
static const struct {
    const char *name, *help, *standard;
} tuning_defaults[] = {
    {"tokenizer", "a transformers folder with the model's tokens", "the model's own"},
    {"length", "tokens of a window; longer examples are divided",
     "as the longest example, at least 512, at most the model's length and 4096; halved while training needs over half "
     "of the memory"},
    {"steps", "of the optimizer, instead of --epochs", "by --epochs"},
    {"batch", "windows in a batch", "as many as 2048 tokens fill, or 768 of a single text, 1 to 12"},
    {"lr", "the highest learning rate", "0.0002; with --lora 0 0.0003, or 0.0384 / width for a width above 128"},
    {"prompt", "beginning of samples", "the prompt of a validation example"},
    {"epochs", "times that each example is seen; 0 only measures", "3"},
    {"warmup", "steps up to the highest learning rate", "3 % of the steps"},
    {"eval-every", "steps from one evaluation, sample and checkpoint to the next", "a tenth of the steps"},
};

static bool is_of_new_models(const char *name)
{
    static const char *const names[] = {"vocabulary", "layers",    "heads", "kv-heads",
                                        "width",      "mlp-width", "llama", "from"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static program_option with_tuning_default(program_option option)
{
    for (size_t i = 0; i < sizeof tuning_defaults / sizeof *tuning_defaults; i++)
        if (strcmp(option.name, tuning_defaults[i].name) == 0) {
            option.help = tuning_defaults[i].help;
            option.standard = tuning_defaults[i].standard;
        }
    return option;
}

const program_option *tuning_options(const program_option *more)
{
    static program_option table[MAX_OPTIONS + 1];
    const char *group = NULL; /* of an option that is left out; the next option gets it */
    int count = 0;
    for (const program_option *option = append_options(more); option->name; option++) {
        group = option->group ? option->group : group;
        if (is_of_new_models(option->name))
            continue;
        table[count] = with_tuning_default(*option);
        table[count++].group = group;
        group = NULL;
    }
    table[count] = (program_option){0};
    return table;
}

/* Returns the steps that see each example --epochs times. */
static int64_t steps_of_epochs(const trainer *t)
{
    const double windows = (double)th_windows_count(t->training) * chosen.epochs;
    const double steps = ceil(windows / (double)(chosen.batch * chosen.accumulate));
    return chosen.epochs == 0 ? 0 : round_up_to_local_steps(steps > 1e9 ? 1000000000 : (int64_t)steps);
}

void choose_steps(const trainer *t, bool tuning)
{
    enum { EVALUATIONS = 10, LINES = 20, MOST_BETWEEN_LINES = 10 };
    if (steps_depend_on_data())
        chosen.steps = steps_of_epochs(t);
    if ((tuning || steps_depend_on_data()) && !was_given.warmup)
        chosen.warmup = chosen.steps / 33; /* 3 % */
    if ((tuning || steps_depend_on_data()) && !was_given.eval_every)
        chosen.eval_every = round_up_to_local_steps(chosen.steps / EVALUATIONS);
    if (!was_given.log_every)
        chosen.log_every = chosen.steps < LINES ? 1 : (int64_t)fmin((double)(chosen.steps / LINES), MOST_BETWEEN_LINES);
    check_local_steps();
}

/* -- data -- */

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

void choose_template(const template_use *use)
{
    chosen.chat = use->chat ? use->chat : chosen.chat;
    chosen.template_variables = use->template_variables ? use->template_variables : chosen.template_variables;
    chosen.template_date = use->template_date ? use->template_date : chosen.template_date;
}

/* Sets the date to today's, unless it is given. */
static void choose_date(void)
{
    static char today[sizeof "2026-11-28"];
    const time_t now = time(NULL);
    struct tm day;
    if (chosen.template_date == NULL && localtime_r(&now, &day) &&
        strftime(today, sizeof today, "%Y-%m-%d", &day) == sizeof today - 1)
        chosen.template_date = today;
}

th_chat_template *load_chat_template(trainer *t, const char *folder)
{
    char *end = copy_token(t, chosen.end_token);
    th_chat_template *chat = th_chat_template_load_as(t->ctx, folder, chosen.chat);
    if (chat == NULL && th_error_code(t->ctx) == TH_ERROR_FILE && chosen.chat == NULL)
        refuse_template(t);
    require_no_error(t);
    if (th_chat_template_end(chat) == NULL && end) /* a folder without tokenizer_config.json */
        require_ok(t, th_chat_template_set_end(chat, end));
    free(end);
    choose_date();
    require_ok(t, th_chat_template_set_date(chat, chosen.template_date));
    require_ok(t, th_chat_template_set_variables(chat, chosen.template_variables));
    return chat;
}

th_status encode_instructions(trainer *t, const texts *text, const char *folder, const char *path)
{
    th_chat_template *chat = load_chat_template(t, folder);
    th_token_writer *writer = th_token_writer_open_marked(t->ctx, path, th_tokenizer_size(t->tokenizer));
    th_instruction_counts counts = {0};
    th_status status = writer ? TH_OK : th_error_code(t->ctx);
    for (size_t i = 0, begin = 0; i < text->documents && status == TH_OK; begin = text->end[i++]) {
        if (i == text->documents - text->held_out)
            chosen.training_tokens = counts.tokens;
        status = th_instructions_append(chat, t->tokenizer, text->bytes + begin, text->end[i] - begin, text->paths[i],
                                        writer, &counts);
    }
    if (status == TH_OK && !t->quiet)
        fprintf(stderr,
                PROGRAM ": %lld examples, chat template %s: %lld tokens, of which %lld count; the longest has "
                        "%lld\n",
                (long long)counts.examples, th_chat_template_kind(chat), (long long)counts.tokens,
                (long long)counts.targets, (long long)counts.longest);
    const char *ends = th_chat_template_end(chat);
    if (status == TH_OK && ends == NULL)
        fprintf(stderr, PROGRAM ": the model has no end-of-text token, so answers will not end by themselves\n");
    else if (status == TH_OK && th_tokenizer_find(t->tokenizer, ends) < 0)
        fprintf(stderr,
                PROGRAM
                ": the template %s ends answers with %s, which is not a token of the model: answers may not end "
                "by themselves\n",
                th_chat_template_kind(chat), ends);
    th_chat_template_free(chat);
    if (status != TH_OK)
        th_token_writer_free(writer);
    return status == TH_OK ? th_token_writer_close(writer) : status;
}

/* -- documents of a file with marks -- */

/* Calls `use` for the first token of each document, in order, until it returns false. */
static void for_each_document(trainer *t, th_token_file *file, bool (*use)(int64_t token, int64_t *state),
                              int64_t *state)
{
    enum { CHUNK = 4096 };
    unsigned char marks[CHUNK];
    const int64_t count = th_token_file_count(file);
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < CHUNK ? count - at : CHUNK;
        require_ok(t, th_token_file_read_marks(file, at, n, marks));
        for (int64_t i = 0; i < n; i++)
            if (marks[i] & TH_TOKEN_BEGINS && !use(at + i, state))
                return;
    }
}

/* state[0]: the wanted token. state[1]: the last beginning of a document up to this token, but not the first
 * document's. state[2]: the number of documents. */
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
    for_each_document(t, file, find_split, state);
    if (state[1] == 0)
        give_up(PROGRAM, "tuning needs at least 2 examples: the last ones are only for measuring (--validation)");
    return state[1];
}

/* state[0]: the beginning of the preceding document. state[1]: the length of the longest document so far. */
static bool find_longest(int64_t token, int64_t *state)
{
    state[1] = token - state[0] > state[1] ? token - state[0] : state[1];
    state[0] = token;
    return true;
}

int64_t longest_document(trainer *t, th_token_file *file)
{
    int64_t state[2] = {0};
    for_each_document(t, file, find_longest, state);
    (void)find_longest(th_token_file_count(file), state);
    return state[1];
}

/* -- reports -- */

/* Returns the first token from `at` on whose marks differ from `marks`. Without such a token, returns `count`. */
static int64_t find_end_of_marks(const unsigned char *mark, int64_t at, int64_t count, unsigned char marks)
{
    while (at < count && mark[at] == marks)
        at++;
    return at;
}

/* Finds the first prompt of these marks [count] that fits the model. Sets *prompt_begin to its first token, and
 * *answer_begin and *answer_end to its answer. Returns whether there is one. */
static bool find_question(const unsigned char *mark, int64_t count, int64_t *prompt_begin, int64_t *answer_begin,
                          int64_t *answer_end)
{
    for (*prompt_begin = 0; *prompt_begin < count; (*prompt_begin)++) {
        if (mark[*prompt_begin] != (TH_TOKEN_BEGINS | TH_TOKEN_GIVEN))
            continue;
        *answer_begin = find_end_of_marks(mark, *prompt_begin + 1, count, TH_TOKEN_GIVEN);
        *answer_end = find_end_of_marks(mark, *answer_begin, count, 0);
        if (*answer_begin < *answer_end && *answer_begin - *prompt_begin < chosen.model.length)
            return true;
    }
    return false;
}

/* Reads the tokens begin .. end of a file. */
static void read_tokens(trainer *t, th_token_file *file, int64_t begin, int64_t end, th_token_list *tokens)
{
    *tokens = (th_token_list){.token = malloc((size_t)(end - begin) * sizeof *tokens->token),
                              .count = (size_t)(end - begin),
                              .capacity = (size_t)(end - begin)};
    if (tokens->token == NULL)
        give_up(PROGRAM, "out of memory");
    require_ok(t, th_token_file_read(file, begin, end - begin, tokens->token));
}

void read_question(trainer *t, th_token_list *question, int64_t *end_token)
{
    enum { CHUNK = 1 << 16 }; /* tokens to search */
    static unsigned char mark[CHUNK];
    int64_t prompt_begin, answer_begin, answer_end;
    *end_token = -1;
    if (!chosen.marked || chosen.prompt)
        return;
    th_token_file *file = th_token_file_open(t->ctx, path_in(t->run, "text.tokens"), NULL);
    require_no_error(t);
    const int64_t first = chosen.training_tokens, held_out_tokens = th_token_file_count(file) - first;
    const int64_t count = held_out_tokens < CHUNK ? held_out_tokens : CHUNK;
    require_ok(t, th_token_file_read_marks(file, first, count, mark));
    if (find_question(mark, count, &prompt_begin, &answer_begin, &answer_end)) {
        int32_t last;
        read_tokens(t, file, first + prompt_begin, first + answer_begin, question);
        require_ok(t, th_token_file_read(file, first + answer_end - 1, 1, &last));
        *end_token = th_tokenizer_is_special(t->tokenizer, last) ? last : -1;
    }
    th_token_file_close(file);
}

void print_initial_loss(const trainer *t, double loss)
{
    printf(PROGRAM ": the loss before tuning is %.4f (perplexity %.4g), over %lld tokens of validation examples\n",
           loss, exp(loss), (long long)th_windows_targets(t->validation));
    fflush(stdout);
}
