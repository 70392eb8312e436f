/* The operations with files whose system calls fail. */
#ifndef TESTS_CALLS_OPERATIONS_H
#define TESTS_CALLS_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tapehead/core.h"

/* What an operation works with. */
typedef struct calls_setting {
    th_context *ctx;
    const char *folder;
    th_module *model;
    th_optimizer *optimizer;
    uint32_t bits; /* of what the operation has read */
} calls_setting;

typedef struct calls_operation {
    const char *name;
    void (*prepare)(calls_setting *); /* makes the old files */
    bool (*run)(calls_setting *);     /* returns false with the error pending */
} calls_operation;

extern const calls_operation calls_operations[];
extern const int calls_operation_count;

/* Makes a context with a small language model that has taken `steps` steps. */
void calls_setting_make(calls_setting *s, const char *folder, int steps);
/* Trains the model further. */
void calls_train(calls_setting *s, int steps);
/* Ends the program if a part of a preparation was not done, or has left an error. */
void calls_expect(const calls_setting *s, bool done);

#endif
