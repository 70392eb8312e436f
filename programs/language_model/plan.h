/* The plan of a new run: `train` chooses model, recipe and number of steps from the size of the text and the time that
 * it has. A plan sets options that the command line does not have, as if it had them. So a command with these options
 * repeats the run with the same bits, on any machine. */
#ifndef EXAMPLES_LANGUAGE_MODEL_PLAN_H
#define EXAMPLES_LANGUAGE_MODEL_PLAN_H

#include "trainer.h"

/* -- recipes.c: the recipe "fast" -- */

/* What to train with this much work and text. */
typedef struct recipe_row {
    double work;         /* FLOP of the whole training, at least */
    int64_t tokens;      /* of the text for training, at least */
    double epochs;       /* the most passes over the text, even if time is left; 0: no limit */
    const char *options; /* of `train` */
} recipe_row;
/* The rows, from little work to much. The first one is for any work and any text. The table ends with a row without
 * options. */
extern const recipe_row recipe_rows[];
/* Returns the last row for this work and this text. */
const recipe_row *find_recipe_row(double work, int64_t tokens);

/* -- plan.c -- */

/* The options --minutes and --recipe. */
extern double plan_minutes;
extern const char *plan_recipe;
extern bool minutes_given, recipe_given;
#define PLAN_OPTIONS                                                                                                   \
    {"minutes",                                                                                                        \
     "for the best model that this machine can train in this time; each option that is given keeps its value",         \
     .real = &plan_minutes,                                                                                            \
     .low = 1e-3,                                                                                                      \
     .high = 1e6,                                                                                                      \
     .given = &minutes_given,                                                                                          \
     .group = "The plan"},                                                                                             \
    {                                                                                                                  \
        "recipe",                                                                                                      \
            "fast: model and training for the time and the text; nanogpt: nanoGPT's for a CPU, as with --from and "    \
            "--epochs",                                                                                                \
            .text = &plan_recipe, .given = &recipe_given                                                               \
    }

/* Returns the table of options of `train`, followed by `more`. The command line is read with it. */
const program_option *planned_options(const program_option *more);
/* Begins the plan of the command line, and its time. Completes the settings, unless the recipe chooses them later.
 * Rejects options that contradict each other, with the same result for all rows of the recipe. */
void begin_plan(bool tuning);
/* Returns whether the recipe chooses the model, so that it is known when the text is. */
bool has_recipe(void);
/* Returns whether the plan chooses the number of steps, or the model. */
bool has_plan(void);
/* Limits the tokens for validation, unless --validation is given. tokens: of the text. Without a recipe it does
 * nothing. */
void limit_validation(int64_t tokens);
/* Chooses model, recipe and number of steps, if the plan does so, and prints them. The tokenizer and the tokens for
 * training are known. tokens: of the whole text. */
void complete_plan(const trainer *t, int64_t tokens);
/* Returns the words of the options that repeat the run. The array ends with NULL. */
const char *const *repeating_options(void);

/* -- costs.c -- */

/* The seconds that parts of a run take. */
typedef struct run_costs {
    double step, evaluation; /* evaluation: of one batch */
    double sample, checkpoint;
} run_costs;
/* Measures the costs with another model than t's. seconds: the least time of the measured steps. */
run_costs measure_costs(const trainer *t, double seconds);
/* Returns the FLOP of a step's matrix products with the settings. */
double work_of_step(void);
/* Returns the number of steps that end after `seconds`, together with samples, checkpoints and evaluations. It sets
 * *eval_every unless that is positive. tokens: of the text for validation. */
int64_t steps_in(double seconds, const run_costs *costs, int64_t tokens, int64_t *eval_every);

/* -- repeat.c -- */
/* Prints the command that repeats the run of these texts, and writes it to command.txt in the run. */
void write_command(const trainer *t, const char *const *sources, int count);

#endif
