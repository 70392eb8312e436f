/* Philox 4x32-10 for 32 counters at a time, and the dropout multipliers computed from it (kernels/random/philox.h).
 * It uses integers only: the words are the same for both element types and on every instruction set. */
#ifndef TH_KERNELS_RANDOM_VECTOR_PHILOX_H
#define TH_KERNELS_RANDOM_VECTOR_PHILOX_H

#include "kernels/random/philox.h"
#include "kernels/vector/vector_math.h"

enum {
    TH_PHILOX_COUNTERS = 32,
    TH_PHILOX_WORDS = 4 * TH_PHILOX_COUNTERS,
    TH_COUNTER_LANES = TH_VECTOR_BYTES / 8, /* counters in one register */
    /* registers computed together, so that they do not wait for each other's products: as many as fit */
    TH_PHILOX_REGISTERS = TH_VECTOR_BYTES == 64 ? 4 : 2
};

TH_INLINE vec_word words_broadcast(uint64_t s)
{
    return s - (vec_word){0};
}

/* words[4 i + j] = word j of counter (x0, x1, call, step), i over the lanes of all registers in x0 and x1. */
TH_INLINE void philox_rounds(const th_philox *random, vec_word x0[TH_PHILOX_REGISTERS],
                             vec_word x1[TH_PHILOX_REGISTERS], uint32_t *words)
{
    vec_word x2[TH_PHILOX_REGISTERS], x3[TH_PHILOX_REGISTERS];
    for (int k = 0; k < TH_PHILOX_REGISTERS; k++) {
        x2[k] = words_broadcast(random->call);
        x3[k] = words_broadcast(random->step);
    }
    uint32_t key0 = random->key[0], key1 = random->key[1];
    UNROLLED_FOR (int round = 0; round < TH_PHILOX_ROUNDS; round++) {
        for (int k = 0; k < TH_PHILOX_REGISTERS; k++) {
            const vec_word p0 = words_multiply(x0[k], words_broadcast(TH_PHILOX_MULTIPLIER_0));
            const vec_word p1 = words_multiply(x2[k], words_broadcast(TH_PHILOX_MULTIPLIER_1));
            x0[k] = (p1 >> 32) ^ x1[k] ^ words_broadcast(key0);
            x1[k] = p1;
            x2[k] = (p0 >> 32) ^ x3[k] ^ words_broadcast(key1);
            x3[k] = p0;
        }
        key0 += TH_PHILOX_KEY_STEP_0;
        key1 += TH_PHILOX_KEY_STEP_1;
    }
    for (int k = 0; k < TH_PHILOX_REGISTERS; k++) {
        const vec_word first = (x0[k] & 0xffffffff) | (x1[k] << 32), second = (x2[k] & 0xffffffff) | (x3[k] << 32);
        uint64_t pair[2 * TH_COUNTER_LANES];
        for (int j = 0; j < TH_COUNTER_LANES; j++) {
            pair[2 * j] = first[j];
            pair[2 * j + 1] = second[j];
        }
        memcpy(words + 4 * k * TH_COUNTER_LANES, pair, sizeof pair);
    }
}

/* words[4 i + j] = word j of counter (c0[i], c1[i], call, step). */
TH_INLINE void philox_words(const th_philox *random, const uint64_t c0[TH_PHILOX_COUNTERS],
                            const uint64_t c1[TH_PHILOX_COUNTERS], uint32_t words[TH_PHILOX_WORDS])
{
    for (int i = 0; i < TH_PHILOX_COUNTERS; i += TH_PHILOX_REGISTERS * TH_COUNTER_LANES) {
        vec_word x0[TH_PHILOX_REGISTERS], x1[TH_PHILOX_REGISTERS];
        for (int k = 0; k < TH_PHILOX_REGISTERS; k++) {
            x0[k] = *(const vec_word *)(c0 + i + k * TH_COUNTER_LANES);
            x1[k] = *(const vec_word *)(c1 + i + k * TH_COUNTER_LANES);
        }
        philox_rounds(random, x0, x1, words + 4 * i);
    }
}

/* multiplier = word >= threshold ? scale : 0 */
TH_INLINE void multipliers_of_words(const th_dropout_mask *dropout, const uint32_t words[TH_PHILOX_WORDS],
                                    real multiplier[TH_PHILOX_WORDS])
{
    const real scale = (real)dropout->scale;
    for (int i = 0; i < TH_PHILOX_WORDS; i++)
        multiplier[i] = words[i] >= dropout->threshold ? scale : 0;
}

/* Computes the multipliers of `count` counters of whole, consecutive rows, from (first_block, first_row) on. A row has
 * `blocks` counters. */
TH_INLINE void multipliers_of_whole_rows(const th_dropout_mask *dropout, uint64_t first_row, uint64_t first_block,
                                         uint64_t blocks, int64_t count, real *multiplier)
{
    const uint64_t past = first_block + blocks;
    uint64_t c0[TH_PHILOX_COUNTERS], c1[TH_PHILOX_COUNTERS];
    uint64_t block = first_block, row = first_row;
    for (int i = 0; i < TH_PHILOX_COUNTERS; i++) {
        c0[i] = block;
        c1[i] = row;
        const bool ends = ++block == past;
        block = ends ? first_block : block;
        row += ends;
    }
    const uint64_t steps = TH_PHILOX_COUNTERS % blocks, rows = TH_PHILOX_COUNTERS / blocks;
    for (int64_t done = 0; done < count; done += TH_PHILOX_COUNTERS) {
        uint32_t words[TH_PHILOX_WORDS];
        philox_words(&dropout->random, c0, c1, words);
        if (count - done >= TH_PHILOX_COUNTERS) {
            multipliers_of_words(dropout, words, multiplier + 4 * done);
        } else {
            real last[TH_PHILOX_WORDS];
            multipliers_of_words(dropout, words, last);
            memcpy(multiplier + 4 * done, last, (size_t)(count - done) * 4 * sizeof(real));
        }
        for (int i = 0; i < TH_PHILOX_COUNTERS; i++) {
            const uint64_t next = c0[i] + steps;
            const bool ends = next >= past;
            c0[i] = ends ? next - blocks : next;
            c1[i] += rows + ends;
        }
    }
}

/* Computes the multipliers, 0 or scale, of a block of the logical matrix: (rows, columns) from (first_row,
 * first_column) on. Rows of `multiplier` are `stride` elements apart. */
TH_INLINE void dropout_multipliers(const th_dropout_mask *dropout, int64_t first_row, int64_t rows,
                                   int64_t first_column, int64_t columns, real *multiplier, int64_t stride)
{
    if (rows <= 0 || columns <= 0)
        return;
    const int64_t first_block = first_column / 4, skip = first_column % 4;
    const int64_t blocks = (skip + columns + 3) / 4; /* counters of a row */
    if (skip == 0 && columns == 4 * blocks && (stride == columns || rows == 1)) {
        multipliers_of_whole_rows(dropout, (uint64_t)first_row, (uint64_t)first_block, (uint64_t)blocks, rows * blocks,
                                  multiplier);
        return;
    }
    int64_t row = 0, block = 0;
    while (row < rows) {
        /* the next counters, continuing in the following rows */
        uint64_t c0[TH_PHILOX_COUNTERS], c1[TH_PHILOX_COUNTERS];
        int64_t next_row = row, next_block = block;
        for (int i = 0; i < TH_PHILOX_COUNTERS; i++) {
            c0[i] = (uint64_t)(first_block + next_block);
            c1[i] = (uint64_t)(first_row + next_row);
            if (++next_block == blocks) {
                next_block = 0;
                next_row++;
            }
        }
        uint32_t words[TH_PHILOX_WORDS];
        philox_words(&dropout->random, c0, c1, words);
        real computed[TH_PHILOX_WORDS];
        multipliers_of_words(dropout, words, computed);
        for (int i = 0; i < TH_PHILOX_COUNTERS && row < rows; i++) {
            const int64_t at = 4 * block - skip;
            real *to = multiplier + row * stride;
            if (at >= 0 && at + 4 <= columns)
                memcpy(to + at, computed + 4 * i, 4 * sizeof(real));
            else
                for (int64_t j = at < 0 ? -at : 0; j < 4 && at + j < columns; j++)
                    to[at + j] = computed[4 * i + j];
            if (++block == blocks) {
                block = 0;
                row++;
            }
        }
    }
}

#endif
