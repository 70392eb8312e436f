/* Exports of the tape: a page that any browser shows, and scripts that check it. */
#ifndef TAPEHEAD_EXPORT_H
#define TAPEHEAD_EXPORT_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef struct th_html_options {
    const char *title;         /* UTF-8; NULL: "Tape" */
    const char *const *tokens; /* [n_tokens] the text of each position of a sequence, beside rows and columns of
                                  attention; NULL: numbers */
    int n_tokens;
    /* Larger arrays are cropped to about this number of elements, matrices of attention to four times as many. 0: chosen
     * so that all arrays together take at most 320 KB. */
    int64_t max_elements;
    /* Tensors with at most this number of elements get central differences, which are computed in float64. 0: 256;
     * negative: none. Their work is limited to about a second: small tensors come first. */
    int64_t max_differences;
    bool append; /* adds a section to the page that th_tape_write_html wrote to this path */
} th_html_options;

/* Writes the tape as one HTML file that needs no network: the graph with all values, and backward node by node.
 * Call th_keep_values before the forward, and this function before th_optimizer_step. Without a backward, the page
 * shows the forward only. Names are those of parameters and of th_set_name. options may be NULL. Errors: TH_ERROR_STATE
 * if the tape is empty, or if values were not kept or were changed; TH_ERROR_FILE if the file cannot be written
 * completely, or, with append, is not such a page; TH_ERROR_MEMORY. After an error the old file stays. */
TH_API th_status th_tape_write_html(th_context *ctx, const char *path, const th_html_options *options) TH_MUST_CHECK;

/* -- scripts that check the tape -- */

typedef struct th_python_options {
    bool numpy; /* a script for NumPy: each backward rule is a formula. Otherwise for PyTorch, with its autograd */
    const char *title; /* the script's first line, UTF-8; NULL: "A tape of Tapehead" */
} th_python_options;

/* Writes the tape as a Python script that needs no other file. The script computes every value from the leaves, and
 * every gradient, in float64. It compares each number with the library's, which it contains exactly, and prints how many
 * it compared and the worst difference. If one differs by more than rounding, it names the tensors, and its exit status
 * is 1. Elements dropped by dropout, and results of operations without a gradient, are constants of the script. The
 * gradient of a view is a part of another gradient, which the script compares.
 *
 * Call th_keep_values before the forward, and this function after one backward, or none, and before
 * th_optimizer_step. options may be NULL. Errors: TH_ERROR_STATE if the tape is empty, values were not kept or were
 * changed, several backward passes ran, or backward added to earlier gradients of leaves; TH_ERROR_ARGUMENT if an
 * operation is not one of the library's; TH_ERROR_FILE if the file cannot be written completely; TH_ERROR_MEMORY. After
 * an error the old file stays. */
TH_API th_status th_tape_write_python(th_context *ctx, const char *path,
                                      const th_python_options *options) TH_MUST_CHECK;

/* -- explanations -- */

/* Prints one element of a gradient as a sum: what each node contributed, with its operation, module and line, in the
 * order of backward. The terms of a contribution follow, an element of the output gradient dy times a derivative: the
 * largest eight, and the sum of the others. The terms of products name the element of the other operand. Operations
 * other than products have terms if dy has at most 1024 elements. For a view the element of its base is explained. Call
 * th_keep_values before the forward. Example: th_tape_explain(ctx, stdout, weight, TH_INDEX(0, 3)).
 *
 * Errors: TH_ERROR_INDEX; TH_ERROR_STATE if the tensor has no gradient, values were not kept or were changed, several
 * backward passes ran, or backward added to earlier gradients of leaves; TH_ERROR_FILE; TH_ERROR_MEMORY. */
TH_API th_status th_tape_explain(th_context *ctx, FILE *file, th_tensor *tensor, th_shape index) TH_MUST_CHECK;

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_tape_explain(...) TH_AT_STATUS(th_tape_explain(__VA_ARGS__))
#define th_tape_write_python(...) TH_AT_STATUS(th_tape_write_python(__VA_ARGS__))
#define th_tape_write_html(...) TH_AT_STATUS(th_tape_write_html(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
