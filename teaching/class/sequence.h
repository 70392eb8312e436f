/* Sequences that a user types, and random ones. */
#ifndef CLASS_SEQUENCE_H
#define CLASS_SEQUENCE_H

#include "model.h"

/* Returns the symbols (1, n) of a typed sequence, an owned tensor. Returns NULL and stores a sentence in e->problem if
 * it does not have n letters of the model's symbols. */
th_tensor *typed_sequence(class_engine *e, const char *sequence);

/* Returns `count` random sequences (count, n), at most 100, an owned tensor. *state is the generator's. */
th_tensor *random_sequences(class_engine *e, int count, uint64_t *state);

#endif
