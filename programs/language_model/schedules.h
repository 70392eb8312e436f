/* The learning rate and the batch of each step, from the settings. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SCHEDULES_H
#define EXAMPLES_LANGUAGE_MODEL_SCHEDULES_H

#include <tapehead/optimizer.h>

/* Returns whether --schedule may have this name. */
bool is_schedule(const char *name);
/* Ends the program if options of schedules contradict each other. */
void refuse_schedule_contradictions(void);
/* Ends the program unless --batch-from fits --batch and --shards. */
void check_batch_from(void);

/* Returns whether the learning rate depends on the validation loss. */
bool has_plateau_schedule(void);
/* Returns the options of --schedule plateau. */
th_plateau_schedule plateau_schedule(void);
/* Returns the learning rate of a step. plateau: the state of --schedule plateau. */
double learning_rate_at(int64_t step, const th_plateau_state *plateau);

/* Returns the windows in each batch of a step. */
int64_t batch_at(int64_t step);
/* Returns the tokens of the steps begin to end - 1. */
int64_t tokens_of_steps(int64_t begin, int64_t end);

#endif
