/* A pretrained model with adapters: the frozen base comes from its folder, and only the adapters are in a run. */
#include <string.h>

#include "shared/system.h"
#include "trainer.h"

enum { MAX_TARGETS = 64 };

bool no_mapping;

/* Divides --lora-targets at its commas. Returns the number of patterns. */
static int split_targets(char *text, const char *patterns[MAX_TARGETS])
{
    int count = 0;
    for (const char *pattern; (pattern = strsep(&text, ",")) != NULL;) {
        if (count == MAX_TARGETS || pattern[0] == 0)
            refuse(PROGRAM, "--lora-targets needs 1 to 64 patterns between commas, not ", chosen.lora_targets);
        patterns[count++] = pattern;
    }
    return count;
}

void make_adapted_model(trainer *t)
{
    const th_dtype storage = parse_storage(chosen.weights);
    const char *patterns[MAX_TARGETS];
    char *targets = chosen.lora_targets ? strdup(chosen.lora_targets) : NULL;
    if (access(path_in(chosen.from, "config.json"), F_OK) != 0 && !is_gguf(chosen.from)) {
        char problem[400];
        snprintf(problem, sizeof problem,
                 "the run has adapters only, and the folder of their model is missing: %.200s. Put it back there, or a "
                 "symbolic link to it",
                 chosen.from);
        give_up(PROGRAM, problem);
    }
    const th_folder_load_options load = {
        .frozen = true, .type = storage, .no_mapping = no_mapping, .model = &chosen.model};
    t->model = th_language_model_from_folder(t->ctx, chosen.from, &load);
    require_no_error(t);
    th_lora_options options = {.rank = chosen.lora,
                               .alpha = chosen.lora_alpha > 0 ? chosen.lora_alpha : 2 * (double)chosen.lora,
                               .dropout = chosen.lora_dropout};
    if (targets) {
        options.n_patterns = split_targets(targets, patterns);
        options.patterns = patterns;
    }
    require_ok(t, th_lora_attach(t->model, &options));
    free(targets);
}

void require_adapters(const trainer *t, th_status status)
{
    const char *error = status == TH_OK ? "" : th_error_text(t->ctx);
    if (chosen.lora > 0 && strstr(error, "was frozen")) {
        begin_last_message(PROGRAM);
        fprintf(
            stderr,
            "the run's adapters belong to the model in %s as it was when the run began; it has changed since (%s)\n",
            chosen.from, error);
        exit(EXIT_FAILURE);
    }
    require_ok(t, status);
}

void merge_adapters(trainer *t)
{
    if (strcmp(chosen.weights, "float32") != 0)
        require_ok(t, th_module_store(t->model, TH_FLOAT32));
    require_ok(t, th_lora_merge(t->model));
    require_ok(t, th_lora_detach(t->model));
}
