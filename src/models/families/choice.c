/* The choice of a family or architecture. */
#include "models/families/family.h"

#include <limits.h>
#include <string.h>

#include "models/core/context.h"

/* The candidate with the fewest differences so far. */
typedef struct closest {
    int candidate; /* -1: none */
    int distance;  /* a candidate with other positions is farther than any other */
    int count;
    th_option_difference difference[TH_MAX_OPTIONS];
} closest;

static void refuse(th_context *ctx, const char *asker, const th_candidates *candidates, const closest *c, bool only)
{
    char list[512] = "";
    for (int i = 0; i < c->count; i++)
        th_append(list, sizeof list, "%s%s", i ? ", " : "", c->difference[i].name);
    if (c->candidate < 0)
        th_fail(ctx, TH_ERROR_ARGUMENT, asker, "no %s of %s can express the model's options", candidates->noun,
                candidates->format);
    else if (only)
        th_fail(ctx, TH_ERROR_ARGUMENT, asker, "the %s is %s, which does not support this model's %s", candidates->noun,
                candidates->title(c->candidate), list);
    else
        th_fail(ctx, TH_ERROR_ARGUMENT, asker,
                "no %s has all options of the model. The closest is %s, which does not support this model's %s",
                candidates->noun, candidates->title(c->candidate), list);
}

int th_first_candidate(th_context *ctx, const char *asker, const th_candidates *candidates,
                       const th_language_model_options *options, int only)
{
    th_language_model_options model = th_normal_options(options);
    /* export reorders rows, so that halves rotate */
    model.block.scores.rotary_pairing = model.other_scores.rotary_pairing = TH_ROTARY_HALVES;
    closest c = {.candidate = -1, .distance = INT_MAX};
    const int first = only < 0 ? 0 : only, end = only < 0 ? candidates->count : only + 1;
    for (int i = first; i < end && c.distance > 0; i++) {
        th_option_difference difference[TH_MAX_OPTIONS];
        const int found = candidates->differences(i, &model, difference);
        th_use_context(ctx);
        if (found == -2) { /* this candidate might have been the right one */
            (void)th_fail_memory(ctx, asker, 0);
            return -1;
        }
        const bool other = candidates->family(i)->options.positions != model.positions;
        const int distance = found + (other ? TH_MAX_OPTIONS : 0);
        if (found < 0 || distance >= c.distance)
            continue;
        c.candidate = i;
        c.distance = distance;
        c.count = found;
        memcpy(c.difference, difference, sizeof difference);
    }
    if (c.distance == 0)
        return c.candidate;
    refuse(ctx, asker, candidates, &c, only >= 0);
    return -1;
}
