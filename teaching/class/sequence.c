/* Sequences (sequence.h). */
#include "sequence.h"

#include <string.h>

#include "call.h"

th_tensor *typed_sequence(class_engine *e, const char *sequence)
{
    const copy_settings *s = &e->model->settings;
    int32_t token[COPY_MAX_LENGTH];
    const size_t length = strlen(sequence);
    if (length != (size_t)s->length) {
        (void)refuse_call(e, "the sequence must have %d letters, it has %zu", (int)s->length, length);
        return NULL;
    }
    for (size_t i = 0; i < length; i++) {
        const char *letter = strchr(copy_letters, sequence[i]);
        if (letter == NULL || letter - copy_letters >= s->vocab) {
            (void)refuse_call(e, "'%c' is not one of the model's symbols, %.*s", sequence[i], (int)s->vocab,
                              copy_letters);
            return NULL;
        }
        token[i] = (int32_t)(letter - copy_letters);
    }
    return th_from_data(e->ctx, TH_INT32, TH_SHAPE(1, s->length), token);
}

/* SplitMix64 (Steele et al. 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

th_tensor *random_sequences(class_engine *e, int count, uint64_t *state)
{
    int32_t token[100 * COPY_MAX_LENGTH];
    const copy_settings *s = &e->model->settings;
    for (int64_t i = 0; i < count * s->length; i++)
        token[i] = (int32_t)(next(state) % (uint64_t)s->vocab);
    return th_from_data(e->ctx, TH_INT32, TH_SHAPE(count, s->length), token);
}
