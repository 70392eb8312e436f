/* The plan of a new run: see plan.h. */
#include "plan.h"
#include "shared/system.h"

#include <math.h>
#include <string.h>

double plan_minutes = 1;
const char *plan_recipe = "fast";
bool minutes_given, recipe_given;

static bool use_recipe; /* the recipe chooses the model */
static bool limit_time; /* the time chooses the number of steps */
static double start_time;
static const double SHARE_OF_MEASURING = 0.01; /* of the time, for each model that is measured */

/* -- options -- */

static program_option table[MAX_OPTIONS + 1]; /* of the command line. Each has a flag `given`. */
static int n_options;
static settings typed_settings; /* the settings before the plan changes them */
static bool was_typed[MAX_OPTIONS];

static bool names_option(const char *options, const char *name)
{
    char word[64];
    const size_t length = (size_t)snprintf(word, sizeof word, "--%s", name);
    for (const char *found = options; (found = strstr(found, word)) != NULL; found += length)
        if (found[length] == ' ' || found[length] == 0)
            return true;
    return false;
}

/* Returns whether the plan has a value for the option. */
static bool is_planned(const char *name)
{
    bool found = names_option("--eval-batches --eval-every", name);
    for (const recipe_row *row = recipe_rows; row->options; row++)
        found = found || names_option(row->options, name);
    return found;
}

/* Says in --help that the plan chooses the option. */
static void describe_default(program_option *option)
{
    static char text[MAX_OPTIONS][64];
    static int used;
    char number[32];
    if (strcmp(option->name, "steps") == 0)
        option->standard = "by --minutes; nanogpt 2000";
    else if (option->standard == NULL && (option->integer || option->real) && is_planned(option->name)) {
        snprintf(text[used], sizeof text[used], "by the recipe; nanogpt %s",
                 spell_number(option->integer ? (double)*option->integer : *option->real, number));
        option->standard = text[used++];
    }
}

const program_option *planned_options(const program_option *more)
{
    static bool given[MAX_OPTIONS];
    for (const program_option *option = append_options(more); option->name; option++) {
        table[n_options] = *option;
        if (option->given == NULL)
            table[n_options].given = &given[n_options];
        describe_default(&table[n_options++]);
    }
    table[n_options] = (program_option){0};
    return table;
}

/* Returns the index of an option, or n_options for an unknown name. */
static int find_option(const char *name)
{
    int i = 0;
    while (i < n_options && strcmp(table[i].name, name) != 0)
        i++;
    return i;
}

static bool is_typed(const char *name)
{
    return was_typed[find_option(name)];
}

/* Remembers the settings and which of them the command line has. */
static void remember_settings(void)
{
    typed_settings = chosen;
    for (int i = 0; i < n_options; i++)
        was_typed[i] = *table[i].given;
}

static void restore_settings(void)
{
    chosen = typed_settings;
    for (int i = 0; i < n_options; i++)
        *table[i].given = was_typed[i];
}

/* Returns whether the option depends on an optimizer or a schedule that the command line has. Then the recipe's value,
 * which is for its own optimizer and schedule, does not fit. */
static bool depends_on_typed(const char *name)
{
    static const char optimizer[] = "--lr --min-lr --adam-lr --adjust-lr --momentum --newton-schulz --polar-express";
    static const char schedule[] = "--min-lr --decay";
    return (is_typed("optimizer") && names_option(optimizer, name)) ||
           (is_typed("schedule") && names_option(schedule, name));
}

/* Sets an option that the command line does not have. */
static void choose_option(const char *name, const char *value)
{
    const int i = find_option(name);
    if (!was_typed[i] && !depends_on_typed(name))
        set_option(PROGRAM, &table[i], value);
}

static void choose_integer(const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    choose_option(name, text);
}

/* -- rows of the recipe -- */

static void choose_options(const char *options)
{
    static char words[1024]; /* settings point to them */
    char *rest = words;
    snprintf(words, sizeof words, "%s", options);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        choose_option(word + 2, table[find_option(word + 2)].flag ? "" : strsep(&rest, " "));
}

/* Fits the sizes of attention to those that the command line has. For 3 heads the model becomes wider than in the row,
 * unless the width is given. Rotary positions need an even width of each head. */
static void fit_heads(void)
{
    const int64_t kv_heads = chosen.kv_heads > 0 ? chosen.kv_heads : 1;
    int64_t heads = (chosen.heads + kv_heads - 1) / kv_heads * kv_heads;
    while (is_typed("width") && heads > kv_heads && chosen.width % (2 * heads) != 0)
        heads -= kv_heads;
    choose_integer("heads", heads);
    choose_integer("width", (chosen.width + 2 * chosen.heads - 1) / (2 * chosen.heads) * 2 * chosen.heads);
}

static int64_t length_in(const recipe_row *row)
{
    return strtoll(strstr(row->options, "--length ") + strlen("--length "), NULL, 10);
}

/* Fits windows to the text, and the batch to the given length, so that a step has as many tokens, and to the shards. */
static void fit_windows(const recipe_row *row)
{
    enum { EVALUATED = 16384 }; /* tokens of an evaluation */
    const int64_t wanted_length = chosen.length > 0 ? chosen.length : DEFAULT_LENGTH;
    int64_t length = wanted_length;
    while (chosen.training_tokens > 1 && length >= chosen.training_tokens)
        length /= 2;
    choose_integer("length", length);
    const int64_t same_tokens = chosen.batch * length_in(row) / wanted_length;
    const int64_t windows = same_tokens < chosen.batch_from ? chosen.batch_from : same_tokens;
    choose_integer("batch", (windows / chosen.shards + (windows % chosen.shards > 0 || windows == 0)) * chosen.shards);
    choose_integer("eval-batches", 1 + (EVALUATED - 1) / (chosen.batch * chosen.length));
}

static void use_row(const trainer *t, const recipe_row *row)
{
    restore_settings();
    choose_options(row->options);
    fit_heads();
    fit_windows(row);
    complete_settings();
    if (t)
        size_model(t);
}

/* Uses the row, or one for less work whose training fits into the memory. Returns it. */
static const recipe_row *use_row_in_memory(const trainer *t, const recipe_row *row)
{
    for (const recipe_row *smaller;; row = smaller) {
        use_row(t, row);
        smaller = find_recipe_row(nextafter(row->work, 0), chosen.training_tokens);
        if (row->work == 0 || fits_into_memory(false))
            return row;
    }
}

static double seconds_left(void)
{
    return start_time + 60 * plan_minutes - monotonic_seconds();
}

/* Uses the row for the work that the machine does in the time. Each row's steps are timed, because a large model does
 * more work in a second than a small one. */
static const recipe_row *use_row_for_time(const trainer *t, run_costs *costs)
{
    enum { MAX_ROWS = 3 };
    const recipe_row *next = recipe_rows, *row;
    for (int i = 0;; i++) {
        row = use_row_in_memory(t, next);
        *costs = measure_costs(t, 60 * plan_minutes * SHARE_OF_MEASURING);
        next = find_recipe_row(work_of_step() / costs->step * seconds_left(), chosen.training_tokens);
        if (next == row || i + 1 == MAX_ROWS)
            return row;
    }
}

/* Uses the last row whose work the given number of steps does. */
static const recipe_row *use_row_for_steps(const trainer *t)
{
    const recipe_row *found = recipe_rows;
    for (const recipe_row *row = recipe_rows; row->options; row++) {
        use_row(t, row);
        if (row->tokens <= chosen.training_tokens && row->work <= work_of_step() * (double)chosen.steps)
            found = row;
    }
    return use_row_in_memory(t, found);
}

/* -- the number of steps -- */

/* Returns the steps after which the text was seen as often as the row wants; all for a row without a limit. */
static int64_t steps_of_epochs(const recipe_row *row)
{
    const double tokens = (double)(chosen.batch * chosen.accumulate * chosen.length);
    const bool limited = row && row->epochs > 0;
    return limited ? (int64_t)fmin(1e9, ceil(row->epochs * (double)chosen.training_tokens / tokens)) : 1000000000;
}

/* Chooses the number of steps for the time that is left, and the evaluations. A part of the time is for what is not
 * measured. */
static void choose_number_of_steps(const run_costs *costs, const recipe_row *row, int64_t tokens)
{
    static const double RESERVE = 0.02;
    const int64_t in_epochs = steps_of_epochs(row), local_steps = chosen.local_steps > 0 ? chosen.local_steps : 1;
    int64_t eval_every = is_typed("eval-every") ? chosen.eval_every : 0;
    int64_t steps = steps_in((1 - RESERVE) * seconds_left(), costs, tokens - chosen.training_tokens, &eval_every);
    steps = steps < in_epochs ? steps : in_epochs;
    steps = steps < local_steps ? local_steps : steps - steps % local_steps;
    choose_integer("steps", steps);
    choose_integer("eval-every", round_up_to_local_steps(eval_every < steps ? eval_every : steps));
}

/* In few steps the learning rate rises faster than the row says. */
static void shorten_warmup(void)
{
    enum { WARMUPS = 5 };
    if (chosen.steps / WARMUPS < chosen.warmup)
        choose_integer("warmup", chosen.steps / WARMUPS);
}

/* -- the plan -- */

bool has_recipe(void)
{
    return use_recipe;
}

bool has_plan(void)
{
    return use_recipe || limit_time;
}

static void refuse_contradictions(bool new_model)
{
    const bool fast = strcmp(plan_recipe, "fast") == 0;
    if (!fast && strcmp(plan_recipe, "nanogpt") != 0)
        refuse(PROGRAM, "--recipe must be fast or nanogpt, not ", plan_recipe);
    if (minutes_given && was_given.steps)
        refuse(PROGRAM, "--minutes and --steps both tell when the training ends: give one of them", "");
    if (!new_model && (minutes_given || (recipe_given && fast)))
        refuse(PROGRAM,
               "--minutes and --recipe fast are for new models: with --from and --epochs the settings are those of "
               "--recipe nanogpt",
               "");
}

void begin_plan(bool tuning)
{
    const bool new_model = !tuning && !chosen.from && !was_given.epochs;
    start_time = monotonic_seconds();
    refuse_contradictions(new_model);
    use_recipe = new_model && strcmp(plan_recipe, "fast") == 0;
    limit_time = minutes_given || (use_recipe && !was_given.steps);
    if (limit_time) /* the default might contradict --local-steps */
        chosen.steps = round_up_to_local_steps(chosen.steps);
    remember_settings();
    if (!use_recipe) {
        complete_settings();
        return;
    }
    use_row(NULL, recipe_rows);
    restore_settings();
}

void limit_validation(int64_t tokens)
{
    static const double MAX_TOKENS = 200000;
    char text[32];
    snprintf(text, sizeof text, "%.17g", MAX_TOKENS / (double)tokens);
    if (use_recipe && chosen.validation * (double)tokens > MAX_TOKENS)
        choose_option("validation", text);
}

static void print_plan(const run_costs *costs)
{
    const double tokens = (double)(chosen.batch * chosen.accumulate * chosen.length);
    fprintf(stderr,
            PROGRAM
            ": %lld steps of %lld x %lld tokens, %.3g passes over the text; %lld layers of width %lld with %lld "
            "heads",
            (long long)chosen.steps, (long long)(chosen.batch * chosen.accumulate), (long long)chosen.length,
            (double)chosen.steps * tokens / (double)chosen.training_tokens, (long long)chosen.model.layers,
            (long long)chosen.model.width, (long long)chosen.model.heads);
    if (limit_time)
        fprintf(stderr, "; a step takes %.3g ms, at %.3g GFLOP/s", 1e3 * costs->step,
                1e-9 * work_of_step() / costs->step);
    fprintf(stderr, "\n");
}

void complete_plan(const trainer *t, int64_t tokens)
{
    run_costs costs = {0};
    const recipe_row *row = NULL;
    if (!has_plan())
        return;
    remember_settings();
    if (use_recipe)
        row = limit_time ? use_row_for_time(t, &costs) : use_row_for_steps(t);
    else
        costs = measure_costs(t, 60 * plan_minutes * SHARE_OF_MEASURING);
    if (limit_time)
        choose_number_of_steps(&costs, row, tokens);
    if (use_recipe)
        shorten_warmup();
    print_plan(&costs);
}

/* -- the command that repeats the run -- */

/* Writes a number with as many digits as it needs. */
static void spell_exactly(double value, char *text, size_t bytes)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, bytes, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            return;
    }
}

/* Returns the variable of an option, or what the command line had for it: later, some become the model's sizes. */
static const void *value_of(const void *variable, bool by_command_line)
{
    const char *const begin = (const char *)&chosen;
    return by_command_line ? (const char *)&typed_settings + ((const char *)variable - begin) : variable;
}

/* Returns the value as a word in memory that the next call with another `slot` leaves; NULL for a flag. */
static const char *spell_value(const program_option *option, bool by_command_line, int slot)
{
    static char text[MAX_OPTIONS][32];
    const char *word = option->text ? *(const char *const *)value_of(option->text, by_command_line) : NULL;
    if (option->flag || word)
        return word;
    if (option->integer)
        snprintf(text[slot], sizeof text[slot], "%lld",
                 (long long)*(const int64_t *)value_of(option->integer, by_command_line));
    else
        spell_exactly(*(const double *)value_of(option->real, by_command_line), text[slot], sizeof text[slot]);
    return text[slot];
}

const char *const *repeating_options(void)
{
    enum { BYTES = 64 };
    static const char *words[2 * MAX_OPTIONS + 3] = {"--recipe", "nanogpt"};
    static char names[MAX_OPTIONS][BYTES];
    int count = 2;
    for (int i = 0; run_options[i].name; i++) {
        if (!*table[i].given)
            continue;
        snprintf(names[i], BYTES, "--%s", table[i].name);
        words[count++] = names[i];
        const char *value = spell_value(&table[i], was_typed[i], i);
        if (value)
            words[count++] = value;
    }
    words[count] = NULL;
    return words;
}
