/* Selects the largest of many numbers (sampling.h). th_select_best keeps the best so far in a heap, whose top is the
 * worst of them. th_move_mass_to_front is a weighted quickselect (Hoare 1961). It finds the fewest numbers that add up to
 * a given sum. */
#include "models/generation/sampling.h"

/* Whether a comes after b in the order: it is smaller, or it is equal with a larger index. */
static bool comes_after(const th_ranked *a, const th_ranked *b)
{
    return a->score < b->score || (a->score == b->score && a->index > b->index);
}

/* Moves the entry at `at` down the heap until no child comes after it. */
static void sift_down(th_ranked *heap, int64_t count, int64_t at)
{
    const th_ranked moved = heap[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && comes_after(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_after(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

int64_t th_select_best(int64_t n, const double *score, int64_t max, th_ranked *best)
{
    const int64_t count = max < n ? max : n;
    if (count <= 0)
        return 0;
    for (int64_t i = 0; i < count; i++)
        best[i] = (th_ranked){score[i], i};
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sift_down(best, count, i);
    for (int64_t i = count; i < n; i++)
        if (score[i] > best[0].score) {
            best[0] = (th_ranked){score[i], i};
            sift_down(best, count, 0);
        }
    for (int64_t unsorted = count - 1; unsorted > 0; unsorted--) { /* the worst moves to the end of the unsorted part */
        const th_ranked worst = best[0];
        best[0] = best[unsorted];
        best[unsorted] = worst;
        sift_down(best, unsorted, 0);
    }
    return count;
}

static void swap(th_ranked *a, th_ranked *b)
{
    const th_ranked kept = *a;
    *a = *b;
    *b = kept;
}

/* Moves the median of three entries to the end. */
static void choose_pivot(int64_t n, th_ranked *scores)
{
    th_ranked *a = &scores[0], *b = &scores[n / 2], *c = &scores[n - 1];
    if (comes_after(a, b))
        swap(a, b);
    if (comes_after(b, c))
        swap(b, c);
    if (comes_after(a, b))
        swap(a, b);
    swap(b, c);
}

/* Partitions the scores: those before the pivot, which is the last, come to the front, and the pivot follows.
 * Returns the pivot's index. Sets *before to the sum of the scores in front of it. */
static int64_t split_by_pivot(int64_t n, th_ranked *scores, double *before)
{
    const th_ranked pivot = scores[n - 1];
    int64_t at = 0;
    *before = 0;
    for (int64_t i = 0; i < n - 1; i++)
        if (comes_after(&pivot, &scores[i])) {
            *before += scores[i].score;
            swap(&scores[i], &scores[at++]);
        }
    swap(&scores[n - 1], &scores[at]);
    return at;
}

int64_t th_move_mass_to_front(int64_t n, th_ranked *scores, double mass)
{
    int64_t taken = 0; /* entries 0 .. taken - 1 are certain to belong; those from n on do not */
    const int64_t total = n;
    while (taken < n && mass > 0) {
        double before;
        choose_pivot(n - taken, scores + taken);
        const int64_t at = taken + split_by_pivot(n - taken, scores + taken, &before);
        if (before >= mass) {
            n = at;
        } else {
            mass -= before + scores[at].score;
            taken = at + 1;
        }
    }
    return taken < total ? taken : total;
}
