/* Runs all checks on a program, and makes a program with a finding smaller. */
#include "check.h"

#include <string.h>

/* Runs the program without the lines that the library refuses. They must be refused in every setting, with a sentence.
 * Returns false with a finding. */
static bool run_legal_lines(program *p, outcome *base, finding *f)
{
    const setting plain = {.name = "plain", .sequence = -1},
                  others[] = {{.sequence = -1, .threads = p->threads, .strided = true},
                              {.sequence = -1, .composed = true},
                              {.sequence = -1, .double_precision = true}};
    for (;;) {
        program_run(p, &plain, base);
        if (base->status == TH_OK || base->failed_line < 0)
            return true;
        const int failed = base->failed_line;
        const th_status status = base->status;
        char message[sizeof base->message];
        memcpy(message, base->message, sizeof message);
        outcome_free(base);
        if (p->line[failed].dropped || strstr(message, "unexpected shape") || !strstr(message, ": ") ||
            strlen(message) < 12)
            return report(f, "error", "%s", message);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            outcome other;
            program_run(p, &others[i], &other);
            const bool same = other.status == status && other.failed_line == failed;
            outcome_free(&other);
            if (!same)
                return report(f, "error", "only some settings fail: %s; another one: %s", message, other.message);
        }
        program_drop(p, failed);
    }
}

bool check_program(program *p, finding *f)
{
    outcome base;
    *f = (finding){.check = ""};
    if (!run_legal_lines(p, &base, f))
        return false;
    const bool ok =
        check_bits(p, &base, f) && check_sequences(p, f) && check_generation(p, f) && check_values(p, &base, f);
    outcome_free(&base);
    return ok;
}

void minimize(program *p, finding *f)
{
    for (int i = p->lines - 1; i >= 0; i--) {
        if (p->line[i].dropped)
            continue;
        program smaller = *p;
        finding other;
        program_drop(&smaller, i);
        if (!check_program(&smaller, &other) && strcmp(other.check, f->check) == 0)
            *p = smaller, *f = other;
    }
    while (p->regions) {
        program smaller = *p;
        finding other;
        smaller.regions--;
        if (check_program(&smaller, &other) || strcmp(other.check, f->check) != 0)
            break;
        *p = smaller, *f = other;
    }
}
