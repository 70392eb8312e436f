/* Fuzz target: checkpoints of a small model. The mutator repairs checksums. A checkpoint that is rejected changes
 * nothing. One that is accepted is the same after it was saved, loaded and saved again. */
#include "kernels/machine/crc32c.h"
#include "tapehead/tapehead.h"

#include "safetensors_mutator.h"

/* -- the mutator -- */

enum { MAX_TENSORS = 64 };

typedef struct range {
    uint64_t begin, end; /* bytes from the beginning of the file */
} range;

static int compare_ranges(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->end > y->end) - (x->end < y->end);
}

/* Finds the tensors in the header, in the order of the file. Returns how many are inside the file. */
static size_t find_ranges(const uint8_t *data, size_t size, range found[MAX_TENSORS])
{
    const size_t first = 8 + header_length(data, size);
    char *header = fuzz_copy((fuzz_part){(const char *)data + 8, first - 8});
    size_t count = 0;
    for (char *at = header; count < MAX_TENSORS && (at = strstr(at, "\"data_offsets\":[")) != NULL; at++) {
        unsigned long long begin, end;
        if (sscanf(at, "\"data_offsets\":[%llu,%llu]", &begin, &end) == 2 && begin <= end && end <= size - first)
            found[count++] = (range){first + begin, first + end};
    }
    free(header);
    qsort(found, count, sizeof *found, compare_ranges);
    return count;
}

static void repair_checksums(uint8_t *data, size_t size)
{
    range tensor[MAX_TENSORS];
    const size_t header = header_length(data, size), count = header > 0 ? find_ranges(data, size, tensor) : 0;
    if (count == 0 || tensor[count - 1].end - tensor[count - 1].begin < 4 * count)
        return;
    uint8_t *sums = data + tensor[count - 1].begin;
    for (size_t i = 0; i < count; i++) {
        const range bytes = i + 1 < count ? tensor[i] : (range){0, 8 + header};
        const uint32_t sum = th_crc32c(0, data + bytes.begin, (size_t)(bytes.end - bytes.begin));
        memcpy(sums + 4 * i, &sum, sizeof sum);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = mutate_safetensors(data, size, max_size, seed);
    if (seed / 16 % 16 != 0)
        repair_checksums(data, size);
    return size;
}

/* -- the program that loads a checkpoint -- */

typedef struct run {
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    int64_t position;
    double best;
    th_checkpoint_number number[2];
} run;

/* Takes a step of training. Numbers of a file may be such that it fails. */
static th_status take_step(run *r)
{
    th_step_begin(r->ctx);
    th_tensor *x = th_full(r->ctx, TH_FLOAT32, TH_SHAPE(1, 2), 0.5);
    th_tensor *loss = th_sum(th_module_forward(r->model, x), TH_ALL_AXES, NULL);
    const th_status status = th_backward(loss, NULL) ? th_error_code(r->ctx) : th_optimizer_step(r->adam);
    th_tape_clear(r->ctx);
    return status;
}

static th_checkpoint begin(run *r)
{
    r->ctx = fuzz_context(1 << 24);
    r->model = th_dense_new(r->ctx, 2, 3, NULL);
    r->adam = th_adam_w_new(r->model, &(th_adam_options){.learning_rate = 1e-3, .weight_decay = 0.1});
    r->position = 25;
    r->best = 1.5;
    r->number[0] = (th_checkpoint_number){.name = "position", .integer = &r->position};
    r->number[1] = (th_checkpoint_number){.name = "best", .real = &r->best};
    FUZZ_CHECK(r->adam && take_step(r) == TH_OK, "%s", th_error_message(r->ctx));
    return (th_checkpoint){.model = r->model,
                           .optimizer = r->adam,
                           .configuration = "{\"width\": 2}",
                           .numbers = r->number,
                           .n_numbers = 2};
}

/* Saves the run, and returns the file. */
static char *save(const th_checkpoint *c, const char *name, size_t *bytes)
{
    FUZZ_CHECK(th_checkpoint_save(fuzz_path(name), c) == TH_OK, "a checkpoint cannot be saved");
    return fuzz_read(fuzz_path(name), bytes);
}

/* The model has the numbers that the file has. */
static void check_weights(const run *r, const char *path)
{
    th_safetensors *file = th_safetensors_open(r->ctx, path);
    th_parameter_iterator it = th_module_parameters(r->model);
    while (th_parameter_next(&it)) {
        th_tensor *t = th_safetensors_read(file, it.name);
        FUZZ_CHECK(t != NULL, "%s", th_error_message(r->ctx));
        fuzz_check_same(t, it.tensor);
    }
    th_safetensors_close(file);
}

/* Loads, saves, loads that in another context, and saves again. */
static void check_accepted(run *r, const th_checkpoint *c, const char *path)
{
    run other;
    size_t bytes, again;
    FUZZ_CHECK(th_checkpoint_verify(r->ctx, path) == TH_OK && th_checkpoint_configuration(r->ctx, path), "%s",
               th_error_message(r->ctx));
    check_weights(r, path);
    char *first = save(c, "first", &bytes);
    const th_checkpoint same = begin(&other);
    FUZZ_CHECK(th_checkpoint_load(fuzz_path("first"), &same) == TH_OK, "%s", th_error_message(other.ctx));
    char *second = save(&same, "second", &again);
    FUZZ_CHECK(again == bytes && memcmp(first, second, bytes) == 0, "the saved run differs");
    FUZZ_CHECK(take_step(r) == take_step(&other) && th_module_crc32c(r->model) == th_module_crc32c(other.model),
               "the two runs continue with other bits");
    th_error_clear(r->ctx);
    th_error_clear(other.ctx);
    fuzz_context_free(other.ctx);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run r;
    const th_checkpoint c = begin(&r);
    const char *path = fuzz_write("in.safetensors", data, size);
    size_t before_bytes, after_bytes;
    char *before = save(&c, "before", &before_bytes);
    const uint32_t bits = th_module_crc32c(r.model);
    const th_status weights = th_weights_load(r.model, path, NULL);
    if (fuzz_rejected(r.ctx, weights != TH_OK, path))
        FUZZ_CHECK(th_module_crc32c(r.model) == bits, "rejected weights changed the model");
    else
        check_weights(&r, path);
    FUZZ_CHECK(th_checkpoint_load(fuzz_path("before"), &c) == TH_OK, "%s", th_error_message(r.ctx));
    const th_status status = th_checkpoint_load(path, &c);
    if (fuzz_rejected(r.ctx, status != TH_OK, path)) {
        char *after = save(&c, "after", &after_bytes);
        FUZZ_CHECK(after_bytes == before_bytes && memcmp(after, before, before_bytes) == 0,
                   "a rejected checkpoint changed the run");
        free(after);
    } else {
        FUZZ_CHECK(weights == TH_OK, "only the weights are rejected");
        check_accepted(&r, &c, path);
    }
    free(before);
    fuzz_context_free(r.ctx);
    return 0;
}
