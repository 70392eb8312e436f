/* Contract 6: the same bits with any number of threads, in any layout, in a second run, while profiling, with scopes or
 * without, recomputed or kept, and with the gradients of results kept. */
#include <string.h>

#include "check.h"

/* Returns false with a finding if the run failed, or if it left memory in use. */
static bool succeeded(const outcome *out, const char *check, finding *f)
{
    if (out->status)
        return report(f, check, "fails: %s", out->message);
    return out->leaked == 0 || report(f, check, "%zu bytes stay in use after the step", out->leaked);
}

/* Returns whether a classifier computes its gradients in the forward: only if no values are kept. */
static bool early_gradients(const program *p)
{
    for (int i = 0; i < p->lines; i++)
        if (!p->line[i].dropped &&
            (strstr(p->line[i].label, "dense_cross_entropy") || strstr(p->line[i].label, "'s loss")))
            return true;
    return false;
}

bool random_numbers(const program *p)
{
    for (int i = 0; i < p->lines; i++)
        if (p->line[i].random && p->training && !p->line[i].dropped)
            return true;
    return false;
}

bool check_bits(const program *p, const outcome *base, finding *f)
{
    const setting settings[] = {{.name = "threads", .threads = p->threads},
                                {.name = "a second run", .profile = true},
                                {.name = "no scopes", .no_scopes = true, .threads = 5 - p->threads % 2},
                                {.name = "recomputed", .recompute = true},
                                {.name = "values kept", .keep_values = true},
                                {.name = "gradients kept", .keep_gradients = true},
                                {.name = "gradients requested", .wrt = true}};
    outcome other;
    if (!succeeded(base, "plain", f))
        return false;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !f->check[0]; i++) {
        setting s = settings[i];
        s.sequence = -1;
        const bool odd = p->ending % 2;
        if (s.wrt && (!odd || early_gradients(p)))
            continue;
        program_run(p, &s, &other);
        const comparison c = {
            .check = s.name, .values = true, .leaves_only = s.wrt, .gradients = !(s.keep_values && early_gradients(p))};
        if (succeeded(&other, s.name, f))
            same_outcomes(p, &c, base, &other, NULL, f);
        outcome_free(&other);
    }
    if (!f->check[0] && !random_numbers(p)) {
        setting s = {.name = "two backwards", .twice = true, .sequence = -1};
        program_run(p, &s, &other);
        const comparison values = {.check = s.name, .values = true};
        if (succeeded(&other, s.name, f))
            same_outcomes(p, &values, base, &other, NULL, f);
        outcome_free(&other);
    }
    return f->check[0] == 0;
}
