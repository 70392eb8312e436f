/* Transposes a square of elements: as many registers as a register has elements. */
#ifndef TH_KERNELS_VECTOR_TRANSPOSE_H
#define TH_KERNELS_VECTOR_TRANSPOSE_H

#include "kernels/vector/vector.h"

enum {
    QUAD = 16 / (int)sizeof(real), /* elements in 16 bytes: shuffles within 16 bytes are the cheapest */
    QUADS = TH_VECTOR_BYTES / 16   /* in a register */
};

/* Lists of element indices in two concatenated registers, for vec_shuffle. LOW and HIGH interleave the low
 * or the high halves of every 16 bytes of both registers. EVEN and ODD collect every other 16 bytes of both. */
#if TH_REAL_BITS == 32
#define LOW_OF(quad) 4 * (quad), 4 * ((quad) + QUADS), 4 * (quad) + 1, 4 * ((quad) + QUADS) + 1
#define HIGH_OF(quad) 4 * (quad) + 2, 4 * ((quad) + QUADS) + 2, 4 * (quad) + 3, 4 * ((quad) + QUADS) + 3
#define WHOLE(quad) 4 * (quad), 4 * (quad) + 1, 4 * (quad) + 2, 4 * (quad) + 3
#else
#define LOW_OF(quad) 2 * (quad), 2 * ((quad) + QUADS)
#define HIGH_OF(quad) 2 * (quad) + 1, 2 * ((quad) + QUADS) + 1
#define WHOLE(quad) 2 * (quad), 2 * (quad) + 1
#endif
#if TH_VECTOR_BYTES == 64
#define LOW LOW_OF(0), LOW_OF(1), LOW_OF(2), LOW_OF(3)
#define HIGH HIGH_OF(0), HIGH_OF(1), HIGH_OF(2), HIGH_OF(3)
#define EVEN WHOLE(0), WHOLE(2), WHOLE(4), WHOLE(6)
#define ODD WHOLE(1), WHOLE(3), WHOLE(5), WHOLE(7)
#elif TH_VECTOR_BYTES == 32
#define LOW LOW_OF(0), LOW_OF(1)
#define HIGH HIGH_OF(0), HIGH_OF(1)
#define EVEN WHOLE(0), WHOLE(2)
#define ODD WHOLE(1), WHOLE(3)
#else
#define LOW LOW_OF(0)
#define HIGH HIGH_OF(0)
#endif

/* Transposes every block of QUAD x QUAD elements of `rows` rows. Afterwards quad q of row g * QUAD + s has element
 * q * QUAD + s of the QUAD rows from g * QUAD on. */
TH_INLINE void transpose_quads(vec *row, int rows)
{
    UNROLLED_FOR (int g = 0; g < rows; g += QUAD) {
#if TH_REAL_BITS == 32
        const vec low02 = vec_shuffle(row[g], row[g + 2], LOW);
        const vec high02 = vec_shuffle(row[g], row[g + 2], HIGH);
        const vec low13 = vec_shuffle(row[g + 1], row[g + 3], LOW);
        const vec high13 = vec_shuffle(row[g + 1], row[g + 3], HIGH);
        row[g] = vec_shuffle(low02, low13, LOW);
        row[g + 1] = vec_shuffle(low02, low13, HIGH);
        row[g + 2] = vec_shuffle(high02, high13, LOW);
        row[g + 3] = vec_shuffle(high02, high13, HIGH);
#else
        const vec low = vec_shuffle(row[g], row[g + 1], LOW);
        row[g + 1] = vec_shuffle(row[g], row[g + 1], HIGH);
        row[g] = low;
#endif
    }
}

#if TH_VECTOR_BYTES > 16
/* Collects the quads with even numbers of two rows in the first, those with odd numbers in the second. */
TH_INLINE void swap_quads(vec *a, vec *b)
{
    const vec even = vec_shuffle(*a, *b, EVEN);
    *b = vec_shuffle(*a, *b, ODD);
    *a = even;
}
#endif

/* Element j of row[i] becomes element i of row[j]. */
TH_INLINE void transpose_registers(vec *row)
{
    transpose_quads(row, TH_REGISTER_LANES);
#if TH_VECTOR_BYTES == 64
    UNROLLED_FOR (int s = 0; s < QUAD; s++) {
        const vec even01 = vec_shuffle(row[s], row[QUAD + s], EVEN);
        const vec odd01 = vec_shuffle(row[s], row[QUAD + s], ODD);
        const vec even23 = vec_shuffle(row[2 * QUAD + s], row[3 * QUAD + s], EVEN);
        const vec odd23 = vec_shuffle(row[2 * QUAD + s], row[3 * QUAD + s], ODD);
        row[s] = vec_shuffle(even01, even23, EVEN);
        row[QUAD + s] = vec_shuffle(odd01, odd23, EVEN);
        row[2 * QUAD + s] = vec_shuffle(even01, even23, ODD);
        row[3 * QUAD + s] = vec_shuffle(odd01, odd23, ODD);
    }
#elif TH_VECTOR_BYTES == 32
    UNROLLED_FOR (int s = 0; s < QUAD; s++)
        swap_quads(&row[s], &row[QUAD + s]);
#endif
}

#undef LOW_OF
#undef HIGH_OF
#undef WHOLE
#undef LOW
#undef HIGH
#undef EVEN
#undef ODD

#endif
