/* The table of values for readers without JavaScript. */
#include <inttypes.h>
#include <stdlib.h>

#include "export/html.h"
#include "io/text_output.h"
#include "tensor/convert.h"
#include "tensor/decimal.h"
#include "tensor/strided_iterator.h"

enum { SHOWN_ELEMENTS = 24 };

static void put_value(FILE *file, double value)
{
    if (value != value || value - value != 0) {
        fputs(value != value ? "NaN" : value > 0 ? "∞" : "−∞", file);
        return;
    }
    const double magnitude = value < 0 ? -value : value;
    const bool positional = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e6);
    const th_decimal d = positional ? th_decimal_positional(value, false, 4) : th_decimal_scientific(value, false, 3);
    fprintf(file, "%s%s%s%s", d.negative ? "−" : "", d.whole, d.fraction[0] ? "." : "", d.fraction);
    if (d.exponent[0])
        fprintf(file, "e%s%d", d.exponent_negative ? "−" : "", atoi(d.exponent));
}

/* Writes the elements of a small array, a line for each row of its last axis. */
static void put_cell(FILE *file, const th_array *array)
{
    fputs("<td>", file);
    const int64_t count = array ? th_array_numel(array) : 0;
    const int64_t columns = count && array->ndim ? array->size[array->ndim - 1] : 1;
    th_iterator iterator;
    if (count > SHOWN_ELEMENTS) {
        fprintf(file, "%" PRId64 " numbers", count);
    } else if (count > 0 && th_iterator_build_row_major(&iterator, array, 0, NULL)) {
        th_iterator_position position;
        th_iterator_seek(&iterator, 0, &position);
        for (int64_t i = 0; i < count; i++, th_iterator_advance(&iterator, 1, &position)) {
            fputs(i == 0 ? "" : i % columns ? " " : "<br>", file);
            put_value(file, th_number_read(array->dtype, position.address[0]));
        }
    }
    fputs("</td>", file);
}

static void put_row(const th_page *page, FILE *file, int64_t index)
{
    const th_listed *t = &page->listing.tensor[index];
    const th_array value = th_tensor_array(t->tensor);
    th_array gradient;
    const bool has_gradient = th_listing_gradient(t->tensor, &gradient);
    fputs("<tr><td>", file);
    if (t->producer >= 0)
        fprintf(file, "%" PRId64 ": ", t->producer);
    th_write_html_text(file,
                       t->producer >= 0 ? th_listing_node(&page->listing, t->producer)->op->name : page->name[index]);
    if (t->producer >= 0 && page->name[index][0]) {
        fputs(" <b>", file);
        th_write_html_text(file, page->name[index]);
        fputs("</b>", file);
    }
    fputs("</td><td>", file);
    th_write_html_text(file, value.ndim ? TH_TEXT(&value) : "scalar");
    fputs("</td>", file);
    put_cell(file, &value);
    put_cell(file, has_gradient ? &gradient : NULL);
    put_cell(file, page->difference[index].given ? &page->difference[index] : NULL);
    fputs("</tr>\n", file);
}

void th_page_write_table(const th_page *page, FILE *file)
{
    fputs("<table>\n<tr><th>tensor</th><th>shape</th><th>value</th><th>gradient</th><th>central difference</th></tr>\n",
          file);
    for (int64_t i = 0; i < page->listing.tensors; i++)
        put_row(page, file, i);
    fputs("</table>\n", file);
}
