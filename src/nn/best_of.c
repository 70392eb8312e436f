/* The largest of many numbers, in order (sampling.h): a heap of the best so far, its worst on top. */
#include "nn/sampling.h"

/* Whether a stands behind b: it is smaller, or the later of equals. */
static bool behind(const th_ranked *a, const th_ranked *b)
{
    return a->score < b->score || (a->score == b->score && a->index > b->index);
}

/* Lets what stands at `place` sink until none below it stands behind it. */
static void sink(th_ranked *heap, int64_t count, int64_t place)
{
    const th_ranked moved = heap[place];
    for (int64_t child = 2 * place + 1; child < count; child = 2 * place + 1) {
        if (child + 1 < count && behind(&heap[child + 1], &heap[child]))
            child++;
        if (!behind(&heap[child], &moved))
            break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = moved;
}

int64_t th_best_of(int64_t n, const double *score, int64_t most, th_ranked *best)
{
    const int64_t count = most < n ? most : n;
    if (count <= 0)
        return 0;
    for (int64_t i = 0; i < count; i++)
        best[i] = (th_ranked){score[i], i};
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sink(best, count, i);
    for (int64_t i = count; i < n; i++)
        if (score[i] > best[0].score) {
            best[0] = (th_ranked){score[i], i};
            sink(best, count, 0);
        }
    for (int64_t left = count - 1; left > 0; left--) { /* the worst goes to the end of what is left */
        const th_ranked worst = best[0];
        best[0] = best[left];
        best[left] = worst;
        sink(best, left, 0);
    }
    return count;
}
