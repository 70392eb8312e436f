/* lora FOLDER BASE load ADAPTER OUT: loads a model of transformers and an adapter of PEFT. Reads tokens (B, T); writes
 * the logits with the adapter, merged and unmerged, and saves the adapter to the folder OUT.
 * lora FOLDER BASE attach PATTERN,... OUT: attaches a random adapter, of rank 3, to the projections that the patterns
 * match ("all": all except the classifier). Does the rest as above.
 * lora FOLDER BASE train ADAPTER OUT: trains the adapter with AdamW. Reads batches (steps, B, T + 1); writes losses
 * (steps), and the rest as above. */
#include <math.h>

#include "driver.h"

enum { MAX_PATTERNS = 8 };

static void check(th_module *model, th_status status)
{
    if (status != TH_OK)
        driver_check(model->ctx);
}

static void attach(th_module *model, char *list)
{
    const char *patterns[MAX_PATTERNS];
    int count = 0;
    for (char *name = strtok(list, ","); name && count < MAX_PATTERNS; name = strtok(NULL, ","))
        patterns[count++] = name;
    const bool all = strcmp(patterns[0], "all") == 0;
    check(model, th_lora_attach(model, &(th_lora_options){.rank = 3,
                                                          .alpha = 7,
                                                          .rank_stabilized = count % 2 == 0,
                                                          .dropout = 0.1,
                                                          .patterns = all ? NULL : patterns,
                                                          .n_patterns = all ? 0 : count}));
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
        check(model, th_fill_normal(adapter.b, 0, 0.2));
}

static void train(th_module *model, const char *folder)
{
    th_context *ctx = model->ctx;
    th_tensor *batches = th_keep(driver_read(ctx, folder, "batches"));
    const int64_t steps = th_size(batches, 0), length = th_size(batches, 2) - 1;
    th_tensor *losses = th_keep(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(steps)));
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 5e-3, .weight_decay = 0.01});
    for (int64_t i = 0; i < steps; i++) {
        th_tensor *batch = th_select(batches, 0, i);
        th_tensor *loss =
            th_language_model_loss(model, th_slice(batch, 1, 0, length, 1), th_slice(batch, 1, 1, length + 1, 1), NULL);
        check(model, th_set(losses, TH_INDEX(i), th_item(loss)));
        check(model, th_backward(loss, NULL));
        check(model, th_optimizer_step(adam));
        th_tape_clear(ctx);
    }
    driver_write(ctx, folder, "losses", losses);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    const char *folder = argv[1], *mode = argv[3];
    th_context *ctx = th_context_new(&(th_context_options){.seed = 5});
    th_module *model = th_language_model_from_pretrained(ctx, argv[2]);
    driver_check(ctx);
    th_set_training(ctx, false);
    if (strcmp(mode, "attach") == 0)
        attach(model, argv[4]);
    else
        check(model, th_lora_load(model, argv[4]));
    if (strcmp(mode, "train") == 0)
        train(model, folder);
    th_tensor *tokens = th_keep(driver_read(ctx, folder, "tokens"));
    driver_write(ctx, folder, "logits", th_module_forward(model, tokens));
    th_tape_clear(ctx);
    check(model, th_lora_merge(model));
    driver_write(ctx, folder, "merged", th_module_forward(model, tokens));
    th_tape_clear(ctx);
    check(model, th_lora_unmerge(model));
    check(model, th_lora_save(model, argv[5], &(th_lora_save_options){.base_model = argv[2]}));
    th_context_free(ctx);
}
