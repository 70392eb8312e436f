/* A shared object that contains the static library. Its function computes with a team of threads. */
#include "tapehead/tapehead.h"

double plugin_compute(int threads);

/* Returns the sum of a product of two matrices; -1 on errors or if the team has another size. */
double plugin_compute(int threads)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .threads = threads});
    th_tensor *a = th_full(ctx, TH_FLOAT32, TH_SHAPE(300, 300), 0.5);
    double sum = th_item(th_sum(th_matmul(a, a), TH_ALL_AXES, NULL));
    if (th_team_size(ctx) != threads || th_error_code(ctx) != TH_OK)
        sum = -1;
    th_context_free(ctx);
    return sum;
}
