/* The recipe "fast": which model to train, and how, for the work that there is time for and the size of the text.
 * All models have Llama's architecture, so they can be exported to transformers. */
#include "plan.h"

/* What all rows have. Little text needs dropout: with as much work, more passes over it. Two cores do about 2e13 FLOP
 * in a minute. */
#define ALL                                                                                                            \
    "--llama --uniform-init --zero-init --embedding-std 0.3 --optimizer muon --adam-lr 0.01 --beta2 0.95 "             \
    "--schedule wsd --decay 0.6 --min-lr 0 "
#define TINY ALL "--layers 2 --heads 2 --width 64 --length 32 --batch 8 --lr 0.02 --warmup 20"
#define SECONDS ALL "--layers 4 --heads 4 --width 128 --length 64 --batch 12 --lr 0.02 --warmup 50"
#define MINUTE ALL "--layers 4 --heads 6 --width 192 --length 128 --batch 16 --lr 0.015 --warmup 50"
#define MINUTES ALL "--layers 6 --heads 8 --width 256 --length 256 --batch 8 --lr 0.01 --warmup 100"
#define HOUR ALL "--layers 6 --heads 6 --width 384 --length 256 --batch 16 --lr 0.01 --warmup 200"
#define HOURS ALL "--layers 8 --heads 8 --width 512 --length 512 --batch 16 --lr 0.01 --warmup 300"

const recipe_row recipe_rows[] = {
    {0, 0, 40, TINY},
    {4e11, 0, 40, SECONDS " --dropout 0.1"},
    {4e11, 400000, 40, SECONDS},
    {1e13, 0, 40, SECONDS " --dropout 0.2"},
    {1e13, 400000, 40, MINUTE},
    {6e13, 400000, 40, MINUTES " --dropout 0.1"},
    {6e13, 4000000, 0, MINUTES},
    {5e14, 400000, 40, HOUR " --dropout 0.2"},
    {5e14, 4000000, 0, HOUR},
    {5e15, 40000000, 0, HOURS},
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
