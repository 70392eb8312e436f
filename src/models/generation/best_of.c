/* The largest of many numbers (sampling.h): so many of them, in order, by a heap of the best so far, whose worst is on
 * top; or those that make up a sum, by quickselect (Hoare 1961) with weights. */
#include "models/generation/sampling.h"

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

int64_t th_best_of(int64_t n, const double *score, int64_t max, th_ranked *best)
{
    const int64_t count = max < n ? max : n;
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

static void swap(th_ranked *a, th_ranked *b)
{
    const th_ranked was = *a;
    *a = *b;
    *b = was;
}

/* Of three, the one in the middle comes to the end. */
static void choose_pivot(int64_t n, th_ranked *scores)
{
    th_ranked *a = &scores[0], *b = &scores[n / 2], *c = &scores[n - 1];
    if (behind(a, b))
        swap(a, b);
    if (behind(b, c))
        swap(b, c);
    if (behind(a, b))
        swap(a, b);
    swap(b, c);
}

/* What is before the pivot, the last, comes to the front, the pivot next: its place. *before: the sum in front of it. */
static int64_t partition(int64_t n, th_ranked *scores, double *before)
{
    const th_ranked pivot = scores[n - 1];
    int64_t place = 0;
    *before = 0;
    for (int64_t i = 0; i < n - 1; i++)
        if (behind(&pivot, &scores[i])) {
            *before += scores[i].score;
            swap(&scores[i], &scores[place++]);
        }
    swap(&scores[n - 1], &scores[place]);
    return place;
}

int64_t th_front_of(int64_t n, th_ranked *scores, double mass)
{
    int64_t taken = 0; /* are sure to belong to them; those from n on do not */
    const int64_t all = n;
    while (taken < n && mass > 0) {
        double before;
        choose_pivot(n - taken, scores + taken);
        const int64_t place = taken + partition(n - taken, scores + taken, &before);
        if (before >= mass) {
            n = place;
        } else {
            mass -= before + scores[place].score;
            taken = place + 1;
        }
    }
    return taken < all ? taken : all;
}
