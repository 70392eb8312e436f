/* Which keys a query sees: the one rule of masks, which masked softmax and attention compute with and
 * th_mask_keep and th_mask_explain tell.
 *
 * A query sees a key when its position, the window and the number of valid keys let it, keep is true there and additive
 * is not -inf. The first three leave it a range of keys (here), the other two are looked at key by key
 * (vector/visible.h). */
#ifndef TH_KERNELS_ROWS_VISIBLE_H
#define TH_KERNELS_ROWS_VISIBLE_H

#include <stdbool.h>
#include <stdint.h>

/* What positions leave of the keys. Query t stands at key t + position, its place, unless places are given one by one.
 * All zero: everything. */
typedef struct th_band {
    bool causal;         /* keys after its own place are hidden */
    bool window;         /* keys more than `left` before or `right` after it are; a negative reach has no limit */
    int64_t left, right; /* any number */
    int64_t position;    /* 0: top left; keys - queries: bottom right */
} th_band;

/* Keys first .. past - 1. */
typedef struct th_key_range {
    int64_t first, past;
} th_key_range;

/* Beyond every key; sums with it do not overflow. Places past it count as this one. */
#define TH_FAR_KEY (INT64_MAX / 4)

/* The keys that a query at place 0 sees by it, not cut off where there are no keys. They move on with its place. */
static inline th_key_range th_band_edges(const th_band *band)
{
    th_key_range edges = {-TH_FAR_KEY, TH_FAR_KEY};
    if (band->window && band->left >= 0 && band->left < TH_FAR_KEY)
        edges.first = -band->left;
    if (band->window && band->right >= 0 && band->right < TH_FAR_KEY)
        edges.past = band->right + 1;
    if (band->causal)
        edges.past = 1;
    return edges;
}

/* What a query at this place sees of the first `length` keys; 0 .. 0 where that is nothing. */
static inline th_key_range th_keys_visible(th_key_range edges, int64_t place, int64_t length)
{
    const int64_t first = edges.first + place, past = edges.past + place;
    const th_key_range keys = {first > 0 ? first : 0, past < length ? past : length};
    return keys.first < keys.past ? keys : (th_key_range){0, 0};
}

/* One query's row of a mask: key s is hidden unless it is in the range, keep is true and additive is not -inf. */
typedef struct th_visible_row {
    th_key_range keys;
    const bool *keep; /* of key 0, keys keep_stride apart; NULL: all are kept */
    int64_t keep_stride;
    const void *additive; /* likewise, of the kernel's element type; NULL: all are 0 */
    int64_t additive_stride;
} th_visible_row;

#endif
