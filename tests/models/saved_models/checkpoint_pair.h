/* A small model with tied weights, its optimizer, and its checkpoint in a temporary folder. */
#ifndef TESTS_CHECKPOINT_PAIR_H
#define TESTS_CHECKPOINT_PAIR_H

#include "tapehead/models.h"

#include "folder.h"
#include "memory.h"

#include "context.h"

static test_memory memory;
static th_module *model;
static th_optimizer *adam;
static int64_t position;
static double best;
static char path[256], lines[4096];

static const th_checkpoint_number numbers[] = {{.name = "position", .integer = &position},
                                               {.name = "best", .real = &best}};

static inline void receive_line(const char *line, void *user)
{
    ck_assert_ptr_eq(user, lines);
    strcat(lines, line);
    strcat(lines, "\n");
}

static inline th_checkpoint run(void)
{
    return (th_checkpoint){.model = model,
                           .optimizer = adam,
                           .configuration = "{\"width\": 3}",
                           .numbers = numbers,
                           .n_numbers = 2,
                           .report = receive_line,
                           .report_user = lines};
}

/* Two layers with tied weights. */
static inline th_module *pair_new(int64_t width)
{
    th_module *m = th_module_new(ctx, sizeof *m, "pair", NULL);
    th_module *first = th_module_add(m, "first", th_dense_new(ctx, width, width, NULL));
    th_module *second = th_module_add(m, "second", th_module_new(ctx, sizeof *m, "second", NULL));
    th_module_tie_parameter(second, "weight", th_module_find_parameter(first, "weight"));
    th_module_add_parameter(second, "scale", TH_SHAPE(2));
    return m;
}

/* One step on the sum of all parameters' squares. */
static inline void step(void)
{
    th_tensor *loss = NULL;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        th_tensor *square = th_sum(th_mul(p.tensor, p.tensor), TH_ALL_AXES, NULL);
        loss = loss ? th_add(loss, square) : square;
    }
    ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK, "%s", th_error_message(ctx));
    th_tape_clear(ctx);
}

static inline void save(void)
{
    const th_checkpoint c = run();
    ck_assert_msg(th_checkpoint_save(path, &c) == TH_OK, "%s", th_error_message(ctx));
}

static inline th_status load(void)
{
    const th_checkpoint c = run();
    lines[0] = 0;
    return th_checkpoint_load(path, &c);
}

static inline void setup(void)
{
    make_folder();
    strcpy(path, in_folder("run.safetensors"));
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 1, .allocator = allocator_of(&memory)});
    model = pair_new(3);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    position = 42;
    best = 0.5;
    no_error();
}

static inline void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

static inline uint32_t state_of_all(void)
{
    return th_module_crc32c(model) ^ (uint32_t)position ^ (uint32_t)(best * 1000) ^ (uint32_t)th_step(ctx) << 8;
}

#endif
