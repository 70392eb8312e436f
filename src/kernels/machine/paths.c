/* Measures the paths of bfloat16 parts (paths.h) with one product, in several rounds, and keeps the least times. */
#include "kernels/machine/paths.h"

#include "kernels/machine/locks.h"
#include "kernels/product_block.h"
#include "platform/system.h"

enum { ROUNDS = 7, MOST_PATHS = 4, LINE_PAD = 16 /* numbers that packing writes past a panel: a register */ };

/* The operands and the result of the measured product. */
static _Alignas(64) float source[TH_PATH_ROWS * TH_PATH_STEPS], packed_a[TH_PATH_ROWS * TH_PATH_STEPS + LINE_PAD],
    packed_b[TH_PATH_COLUMNS * TH_PATH_STEPS + LINE_PAD], result[TH_PATH_ROWS * TH_PATH_COLUMNS];

static double seconds_now(void)
{
    return 1e-9 * (double)th_nanoseconds_now();
}

double th_path_time(const th_product_kernels *path)
{
    const int64_t elements = th_panel_elements(path, TH_PATH_STEPS);
    const th_product_block block = {.m = TH_PATH_ROWS,
                                    .n = TH_PATH_COLUMNS,
                                    .k = TH_PATH_STEPS,
                                    .a = packed_a,
                                    .a_panel = path->rows * elements,
                                    .a_row = 1,
                                    .a_col = path->rows,
                                    .b = packed_b,
                                    .b_panel = path->columns * elements,
                                    .b_row = path->columns,
                                    .c = result,
                                    .c_row = TH_PATH_COLUMNS};
    for (int i = 0; i < TH_PATH_ROWS * TH_PATH_STEPS; i++)
        source[i] = (float)(i % 31 + 1);
    const double begin = seconds_now();
    path->pack_a(TH_PATH_ROWS, TH_PATH_STEPS, source, TH_PATH_STEPS, 1, packed_a);
    path->pack_b(TH_PATH_STEPS, TH_PATH_COLUMNS, source, 1, TH_PATH_STEPS, packed_b, block.b_panel);
    path->block(&block);
    return seconds_now() - begin;
}

const th_product_kernels *th_path_fastest(int count, const th_product_kernels *const *paths,
                                          double (*time)(const th_product_kernels *path))
{
    double least_seconds[MOST_PATHS];
    int best = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            const double seconds = time(paths[i]);
            if (round == 0 || seconds < least_seconds[i])
                least_seconds[i] = seconds;
        }
    for (int i = 1; i < count; i++)
        best = least_seconds[i] <= least_seconds[best] ? i : best;
    return paths[best];
}

const th_product_kernels *th_path_automatic(void)
{
    const th_isa *const isa = th_isa_automatic()->isa;
    static const th_product_kernels *chosen; /* of several paths */
    const th_product_kernels *paths[MOST_PATHS];
    int count = 0;
    for (int i = 0; i < th_isa_choice_count && count < MOST_PATHS; i++) {
        const th_isa_choice *choice = &th_isa_choices[i];
        if (choice->isa == isa && choice->products && (!choice->why_not || !choice->why_not()))
            paths[count++] = choice->products;
    }
    if (count == 1)
        return paths[0];
    const th_held_lock held = th_lock_take(TH_LOCK_PATHS);
    if (!chosen)
        chosen = th_path_fastest(count, paths, th_path_time);
    th_lock_release(&held);
    return chosen;
}
