/* The recipe "fast": which model to train, and how, for the work that there is time for and the size of the text. Each
 * row is the best of the experiments near its work and text. bench/recipes.py compares others. All models can be
 * exported to transformers. */
#include "plan.h"

/* One machine of two cores does 2e13 FLOP in a minute. */
#define LLAMA "--llama --beta2 0.95 "
const recipe_row recipe_rows[] = {
    {0, 0, 40, LLAMA "--layers 2 --heads 2 --width 64 --length 32 --batch 8 --lr 0.01 --warmup 20"},
    {2e11, 0, 40, LLAMA "--layers 2 --heads 4 --width 128 --length 64 --batch 8 --lr 0.005 --warmup 30"},
    {2e12, 0, 20, LLAMA "--layers 4 --heads 4 --width 128 --length 64 --batch 12 --lr 0.004 --warmup 50 --dropout 0.1"},
    {2e12, 500000, 20, LLAMA "--layers 4 --heads 4 --width 128 --length 64 --batch 12 --lr 0.004 --warmup 50"},
    {1e13, 0, 20,
     LLAMA "--layers 4 --heads 4 --width 128 --length 128 --batch 16 --lr 0.004 --warmup 50 --dropout 0.2"},
    {1e13, 500000, 20, LLAMA "--layers 4 --heads 6 --width 192 --length 128 --batch 16 --lr 0.003 --warmup 100"},
    {5e13, 0, 20,
     LLAMA "--layers 4 --heads 6 --width 192 --length 128 --batch 16 --lr 0.003 --warmup 100 --dropout 0.2"},
    {5e13, 500000, 20,
     LLAMA "--layers 6 --heads 8 --width 256 --length 256 --batch 8 --lr 0.002 --warmup 100 --dropout 0.1"},
    {5e13, 5000000, 0, LLAMA "--layers 6 --heads 8 --width 256 --length 256 --batch 8 --lr 0.002 --warmup 100"},
    {3e14, 500000, 20,
     LLAMA "--layers 6 --heads 6 --width 384 --length 256 --batch 16 --lr 0.0015 --warmup 200 --dropout 0.2"},
    {3e14, 5000000, 0, LLAMA "--layers 6 --heads 6 --width 384 --length 256 --batch 16 --lr 0.0015 --warmup 200"},
    {3e15, 50000000, 0, LLAMA "--layers 8 --heads 8 --width 512 --length 512 --batch 16 --lr 0.001 --warmup 300"},
    {.options = NULL},
};

const recipe_row *find_recipe_row(double work, int64_t tokens)
{
    const recipe_row *found = recipe_rows;
    for (const recipe_row *row = recipe_rows; row->options; row++)
        if (row->work <= work && row->tokens <= tokens)
            found = row;
    return found;
}
