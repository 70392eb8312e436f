/* mpi_train [fail]: trains a small language model with the processes of mpirun, and prints its checksum. With "fail" the
 * last process has an error in the second step, and every process must report it. Without mpirun it trains alone. */
#include "mpi_checks.h"

#include "tapehead/core.h"

enum { VOCABULARY = 16, LENGTH = 6, SHARDS = 8, STEPS = 4 };

/* Runs one step. In a step that fails, the last process gives its first shard a loss without a gradient. */
static th_status step(th_optimizer *adam, th_module *model, bool fails)
{
    for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard); th_tape_clear(model->ctx)) {
        th_step_begin(model->ctx);
        th_tensor *text = th_random_integers(model->ctx, TH_INT32, TH_SHAPE(2, LENGTH + 1), 0, VOCABULARY);
        th_tensor *loss =
            th_language_model_loss(model, th_slice(text, 1, 0, LENGTH, 1), th_slice(text, 1, 1, LENGTH + 1, 1), NULL);
        shard.loss = th_item(loss);
        if (th_backward(fails ? text : loss, NULL))
            break;
    }
    return th_optimizer_step(adam);
}

static void expect_the_error(const th_context *ctx, int size)
{
    char words[40];
    snprintf(words, sizeof words, size == 1 ? "backward: " : "rank %d: backward: ", size - 1);
    CHECK_WORDS(th_error_text(ctx), words);
}

int main(int argc, char **argv)
{
    const bool fail = argc == 2 && strcmp(argv[1], "fail") == 0;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    th_context *ctx = th_context_new(&(th_context_options){.seed = 4});
    th_group *group = th_mpi_group_new(ctx, MPI_COMM_WORLD);
    CHECK_THAT(group != NULL, "%s", th_error_message(ctx));
    CHECK(th_group_set_timeout(group, 300) == TH_OK);
    const int rank = th_group_rank(group), size = th_group_size(group);
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){VOCABULARY, LENGTH, .width = 16, .heads = 2, .layers = 2, .dropout = 0.2});
    th_optimizer *adam = th_adam_w_new(
        model, &(th_adam_options){.learning_rate = 1e-2, .max_norm = 0.5, .shards = SHARDS, .group = group});
    for (int i = 0; i < STEPS; i++) {
        const bool fails = fail && i == 1;
        const th_status status = step(adam, model, fails && rank == size - 1);
        if (fails)
            expect_the_error(ctx, size);
        else
            CHECK_THAT(status == TH_OK, "%s", th_error_message(ctx));
        th_error_clear(ctx);
    }
    if (rank == 0)
        printf("loss=%.6f parameters_crc32c=%08x\n", th_optimizer_loss(adam), (unsigned)th_module_crc32c(model));
    th_context_free(ctx);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
