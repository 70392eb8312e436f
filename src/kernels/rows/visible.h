/* The keys that a query sees. Masked softmax, attention, th_mask_keep and th_mask_explain all use this definition.
 *
 * A query sees a key if causal order, the window and the number of valid keys allow it, keep is true and additive is
 * not -inf. The first three give a range of keys (this file). The other two are checked for each key
 * (vector/visible.h). */
#ifndef TH_KERNELS_ROWS_VISIBLE_H
#define TH_KERNELS_ROWS_VISIBLE_H

#include <stdbool.h>
#include <stdint.h>

/* Which keys are visible because of their positions. Query t has position t + `position` among the keys, unless the
 * caller gives the position of each query. All zero: every key is visible. */
typedef struct th_band {
    bool causal;         /* keys after the query's position are masked */
    bool window;         /* keys more than `left` before or `right` after it are masked */
    int64_t left, right; /* any number; negative: unlimited */
    int64_t position;    /* 0: top left; keys - queries: bottom right */
} th_band;

/* The keys first .. past - 1. */
typedef struct th_key_range {
    int64_t first, past;
} th_key_range;

/* Greater than every key; sums with it do not overflow. Greater positions count as this one. */
#define TH_FAR_KEY (INT64_MAX / 4)

/* Returns the keys that a query at position 0 sees, without limiting them to existing keys. Other positions shift
 * them. */
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

/* Returns the keys among the first `length` that a query at this position sees; 0 .. 0 if it sees none. */
static inline th_key_range th_keys_visible(th_key_range edges, int64_t position, int64_t length)
{
    const int64_t first = edges.first + position, past = edges.past + position;
    const th_key_range keys = {first > 0 ? first : 0, past < length ? past : length};
    return keys.first < keys.past ? keys : (th_key_range){0, 0};
}

/* A query's row of a mask: key s is visible if it is in the range, keep is true and additive is not -inf. */
typedef struct th_visible_row {
    th_key_range keys;
    const bool *keep; /* of key 0; the next key is keep_stride further; NULL: all true */
    int64_t keep_stride;
    const void *additive; /* likewise, of the kernel's element type; NULL: all 0 */
    int64_t additive_stride;
} th_visible_row;

#endif
