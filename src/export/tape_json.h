/* The tape as JSON, as docs/internals/pages.md describes it. */
#ifndef TH_EXPORT_TAPE_JSON_H
#define TH_EXPORT_TAPE_JSON_H

#include "export/attention.h"
#include "tapehead/export.h"

/* What a page shows of a tape. */
typedef struct th_page {
    th_listing listing;
    th_contributions contributions;
    th_array *difference;            /* [tensors] central differences; not given: not computed */
    th_attention_inside **attention; /* [nodes] NULL: the node is not attention */
    char (*name)[TH_LISTED_NAME];    /* [tensors] */
    int64_t loss;                    /* the tensor with one element at which backward started; -1: none */
    const char **fused;              /* [nodes] what a fused node equals; NULL: the node is not fused */
    const char **attributes;         /* [nodes] their text; NULL: none */
    int64_t limit;                   /* arrays with more elements are cropped */
    int64_t attention_limit;         /* the same for arrays inside attention */
    size_t bytes[5];
} th_page;

/* Collects what a page shows of the tape. th_page_end must follow, also after an error. Errors: see
 * th_tape_write_html. */
th_status th_page_begin(th_page *page, th_context *ctx, const th_html_options *options, const char *operation);
void th_page_end(th_page *page);

/* Writes the page's data. The caller checks ferror. */
void th_page_write_json(const th_page *page, FILE *file, const th_html_options *options);

/* Writes the tape of a context as JSON: th_page_begin, th_page_write_json, th_page_end. options may be NULL. Errors:
 * as th_tape_write_html; TH_ERROR_FILE if the file cannot be written. */
th_status th_tape_write_json(th_context *ctx, FILE *file, const th_html_options *options);

#endif
