/* What is missing in a file of tensors, what is too much, and what has another shape: all of it in one sentence. It reads
 * no numbers and changes nothing. */
#include "io/stored_match.h"

#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/shape.h"

enum { ROOM = 256 }; /* for the names of one kind of trouble; three of them, and the place, fit into a message */

/* The names with one trouble. */
typedef struct trouble {
    char text[ROOM];
    size_t used;
    int64_t count, left_out;
} trouble;

/* Adds a piece if it fits whole; what comes after one that does not is left out too. */
static void add(trouble *t, const char *piece)
{
    const size_t length = strlen(piece), comma = t->count > 0 ? 2 : 0;
    if (t->left_out == 0 && t->used + comma + length < ROOM) {
        memcpy(t->text + t->used, ", ", comma);
        memcpy(t->text + t->used + comma, piece, length + 1);
        t->used += comma + length;
    } else
        t->left_out++;
    t->count++;
}

static void compare(const th_stored_tensor *stored, const th_named_tensor *wanted, trouble *other)
{
    char piece[TH_QUOTED + 2 * TH_SHAPE_TEXT + 64], quoted[TH_QUOTED];
    const th_shape here = th_shape_of(wanted->tensor);
    const bool same = stored->shape.ndim == here.ndim &&
                      memcmp(stored->shape.size, here.size, (size_t)here.ndim * sizeof here.size[0]) == 0;
    if (!same)
        snprintf(piece, sizeof piece, "%s is %s in the file, %s here", th_quote(stored->name, quoted),
                 TH_SIZES_TEXT(stored->shape.ndim, stored->shape.size), TH_SIZES_TEXT(here.ndim, here.size));
    else if (!stored->readable)
        snprintf(piece, sizeof piece, "%s is of type %s", th_quote(stored->name, quoted), stored->type);
    else
        return;
    add(other, piece);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const th_named_tensor *)a)->name, ((const th_named_tensor *)b)->name);
}

/* "; 2 tensors are missing: a, b" behind what is there. */
static void say(const trouble *t, const char *one, const char *several, char *sentence, size_t size)
{
    const size_t used = strlen(sentence);
    char more[48] = "";
    if (t->count == 0)
        return;
    if (t->left_out > 0)
        snprintf(more, sizeof more, "%s%lld more", t->used ? " and " : "", (long long)t->left_out);
    snprintf(sentence + used, size - used, "%s%lld %s: %s%s", used ? "; " : "", (long long)t->count,
             t->count == 1 ? one : several, t->text, more);
}

th_status th_stored_match(th_context *ctx, const char *operation, const char *place, const th_safetensors *file,
                          th_named_tensor *wanted, int64_t count, th_passed_over *passed_over, void *user)
{
    trouble missing = {0}, unexpected = {0}, other = {0};
    char quoted[TH_QUOTED], sentence[3 * (ROOM + 96)] = "";
    for (int64_t i = 0; i < count; i++) {
        const th_stored_tensor *stored = th_safetensors_find(file, wanted[i].name);
        if (stored)
            compare(stored, &wanted[i], &other);
        else
            add(&missing, th_quote(wanted[i].name, quoted));
    }
    qsort(wanted, (size_t)count, sizeof wanted[0], by_name);
    for (int64_t i = 0; i < th_safetensors_count(file); i++) {
        const th_named_tensor found = {.name = th_safetensors_at(file, i)->name};
        if (bsearch(&found, wanted, (size_t)count, sizeof found, by_name) == NULL &&
            !(passed_over && passed_over(found.name, user)))
            add(&unexpected, th_quote(found.name, quoted));
    }
    say(&missing, "tensor is missing", "tensors are missing", sentence, sizeof sentence);
    say(&unexpected, "is unexpected", "are unexpected", sentence, sizeof sentence);
    say(&other, "is of another shape or type", "are of other shapes or types", sentence, sizeof sentence);
    return sentence[0] ? th_fail(ctx, TH_ERROR_FILE, operation, "%.200s: %s", place, sentence) : TH_OK;
}
