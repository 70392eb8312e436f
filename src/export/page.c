/* Collects the contents of a page: names, contributions, central differences. Chooses the size of cropped
 * arrays. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/composition.h"
#include "export/json.h"
#include "export/python/script.h"
#include "export/replay.h"
#include "export/tape_json.h"
#include "platform/memory_stream.h"

enum {
    DEFAULT_DIFFERENCES = 256,       /* elements of a tensor that gets central differences */
    DIFFERENCE_WORK = 600 * 1000000, /* units of work of all central differences: about a second */
    DATA_BYTES = 320 * 1000,         /* of all arrays together */
    FUSED_TEXT = 500
};

/* Names every tensor. A leaf without a name is "input", with a number if there are several. */
static void name_tensors(th_page *page)
{
    const th_listing *listing = &page->listing;
    int unnamed = 0, count = 0;
    for (int64_t i = 0; i < listing->tensors; i++) {
        th_listing_name(listing->tensor[i].tensor, page->name[i]);
        unnamed += listing->tensor[i].producer < 0 && !page->name[i][0];
    }
    for (int64_t i = 0; i < listing->tensors; i++) {
        if (page->name[i][0] || listing->tensor[i].producer >= 0)
            continue;
        if (unnamed > 1)
            snprintf(page->name[i], TH_LISTED_NAME, "input %d", ++count);
        else
            strcpy(page->name[i], "input");
    }
}

static void find_loss(th_page *page)
{
    page->loss = -1;
    for (int64_t i = 0; i < page->listing.tensors; i++)
        if (page->contributions.start[i] && th_tensor_numel(page->listing.tensor[i].tensor) == 1)
            page->loss = i;
}

/* Computes central differences: of tensors with few elements first, so that the budget serves as many as possible. */
static th_status compute_differences(th_page *page, int64_t max_elements)
{
    th_listing *listing = &page->listing;
    th_replay replay;
    th_status status = th_replay_begin(&replay, listing, &page->contributions, DIFFERENCE_WORK);
    for (int64_t size = 1; size / 2 < max_elements && size <= INT64_MAX / 2 && status == TH_OK; size *= 2)
        for (int64_t i = 0; i < listing->tensors && status == TH_OK; i++) {
            const int64_t count = th_tensor_numel(listing->tensor[i].tensor);
            bool computed = false;
            if (count <= max_elements && count <= size && count > size / 2)
                status = th_replay_difference(&replay, i, &page->difference[i], &computed);
            page->difference[i].given |= computed;
        }
    th_replay_end(&replay);
    return status;
}

/* Looks inside the nodes of attention. */
static th_status look_inside_attention(th_page *page)
{
    th_context *ctx = page->listing.ctx;
    for (int64_t n = 0; n < page->listing.nodes; n++) {
        th_attention_inside inside;
        if (th_attention_look_inside(&inside, &page->listing, &page->contributions, n) != TH_OK)
            return ctx->error;
        if (!inside.given)
            continue;
        page->attention[n] = th_bump_allocate(ctx, &ctx->tape->records, sizeof inside);
        if (page->attention[n] == NULL)
            return th_fail_memory(ctx, "export", sizeof inside);
        *page->attention[n] = inside;
    }
    return TH_OK;
}

/* Copies text to memory that lasts as long as the page. */
static const char *keep_text(th_page *page, const char *text)
{
    th_context *ctx = page->listing.ctx;
    char *copy = th_bump_allocate(ctx, &ctx->tape->records, strlen(text) + 1);
    if (copy == NULL)
        th_fail_memory(ctx, "export", strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

/* Writes the attributes of each node as text, "axis=1, eps=1e-05": as in the scripts, without the kept elements of
 * dropout. */
static th_status describe_attributes(th_page *page)
{
    th_context *ctx = page->listing.ctx;
    for (int64_t n = 0; n < page->listing.nodes && !ctx->error; n++) {
        th_memory_stream memory;
        if (!th_memory_open(&memory))
            return th_fail_memory(ctx, "export", FUSED_TEXT);
        th_script script = {.listing = page->listing, .file = memory.file};
        if (th_script_supports(th_listing_node(&page->listing, n)->op))
            th_script_put_attributes(&script, n);
        if (!th_memory_close(&memory))
            return th_fail_memory(ctx, "export", FUSED_TEXT);
        if (memory.text[0])
            page->attributes[n] = keep_text(page, memory.text + strlen(", "));
        free(memory.text);
    }
    return ctx->error;
}

/* Writes for each fused node what it equals. */
static th_status describe_fused(th_page *page)
{
    th_context *ctx = page->listing.ctx;
    for (int64_t n = 0; n < page->listing.nodes; n++) {
        char text[FUSED_TEXT];
        if (th_composition_text(&page->listing, n, text, sizeof text) != TH_OK)
            return ctx->error;
        if (text[0] == 0)
            continue;
        page->fused[n] = keep_text(page, text);
        if (page->fused[n] == NULL)
            return ctx->error;
    }
    return TH_OK;
}

/* -- the size of the data -- */

static int64_t cropped_bytes(const th_array *array, int64_t limit)
{
    th_array shown = *array;
    th_crop_sizes(shown.ndim, shown.size, limit);
    return th_array_numel(&shown) * (int64_t)th_dtype_size(array->dtype) * 4 / 3 + 60;
}

/* Returns the bytes of all arrays inside attention. */
static int64_t attention_bytes(const th_page *page, int64_t limit)
{
    int64_t bytes = 0;
    for (int64_t n = 0; n < page->listing.nodes; n++) {
        const th_attention_inside *a = page->attention[n];
        if (a == NULL)
            continue;
        const th_array *const array[] = {&a->scores, &a->mask, &a->weights, &a->dropped, &a->dweights, &a->dscores};
        for (int i = 0; i < 6; i++)
            bytes += array[i]->given ? cropped_bytes(array[i], limit) : 0;
    }
    return bytes;
}

/* Returns the bytes of all other arrays. */
static int64_t tensor_bytes(const th_page *page, int64_t limit)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < page->listing.tensors; i++) {
        const th_tensor_impl *t = page->listing.tensor[i].tensor;
        const th_array value = th_tensor_array(t);
        th_array gradient;
        bytes += cropped_bytes(&value, limit);
        if (th_listing_gradient(t, &gradient))
            bytes += cropped_bytes(&gradient, limit);
        if (page->difference[i].given)
            bytes += cropped_bytes(&page->difference[i], limit);
    }
    for (int64_t i = 0; i < page->listing.operands; i++)
        if (page->contributions.list[i].how != TH_HOW_NONE)
            bytes += cropped_bytes(&page->contributions.list[i].gradient, limit);
    return bytes;
}

/* Returns the largest limit with which the arrays take at most max_bytes; at least 16. bytes: computes their size. */
static int64_t find_limit(const th_page *page, int64_t (*bytes)(const th_page *page, int64_t limit), int64_t max_bytes)
{
    int64_t limit = 1 << 20;
    while (limit > 16 && bytes(page, limit) > max_bytes)
        limit -= limit / 8 > 1 ? limit / 8 : 1;
    return limit;
}

/* Sets the limits. Attention comes first, because a part of its matrices explains little. */
static void set_limits(th_page *page, int64_t most_elements)
{
    page->limit = most_elements;
    page->attention_limit = most_elements < INT64_MAX / 4 ? 4 * most_elements : most_elements;
    if (most_elements > 0)
        return;
    page->attention_limit = find_limit(page, attention_bytes, (int64_t)DATA_BYTES / 3 * 2);
    page->limit = find_limit(page, tensor_bytes, DATA_BYTES - attention_bytes(page, page->attention_limit));
}

/* -- begin and end -- */

th_status th_page_begin(th_page *page, th_context *ctx, const th_html_options *options, const char *operation)
{
    *page = (th_page){.loss = -1};
    if (th_listing_begin(&page->listing, ctx, operation) != TH_OK)
        return ctx->error;
    page->difference =
        th_listing_zeros(ctx, page->listing.tensors, sizeof *page->difference, &page->bytes[0], "export");
    page->name = th_listing_zeros(ctx, page->listing.tensors, sizeof *page->name, &page->bytes[1], "export");
    page->attention = th_listing_zeros(ctx, page->listing.nodes, sizeof *page->attention, &page->bytes[2], "export");
    page->fused = th_listing_zeros(ctx, page->listing.nodes, sizeof *page->fused, &page->bytes[3], "export");
    page->attributes = th_listing_zeros(ctx, page->listing.nodes, sizeof *page->attributes, &page->bytes[4], "export");
    if (ctx->error)
        return ctx->error;
    name_tensors(page);
    const int64_t max_elements = options->max_differences ? options->max_differences : DEFAULT_DIFFERENCES;
    if (th_contributions_begin(&page->contributions, &page->listing) != TH_OK ||
        (page->listing.backward_ran && max_elements > 0 && compute_differences(page, max_elements) != TH_OK) ||
        look_inside_attention(page) != TH_OK || describe_fused(page) != TH_OK || describe_attributes(page) != TH_OK)
        return ctx->error;
    find_loss(page);
    set_limits(page, options->max_elements);
    return TH_OK;
}

void th_page_end(th_page *page)
{
    th_context *ctx = page->listing.ctx;
    th_contributions_end(&page->contributions, &page->listing);
    th_release(ctx, page->difference, page->bytes[0]);
    th_release(ctx, page->name, page->bytes[1]);
    th_release(ctx, page->attention, page->bytes[2]);
    th_release(ctx, page->fused, page->bytes[3]);
    th_release(ctx, page->attributes, page->bytes[4]);
    th_listing_end(&page->listing);
}
