/* The static parts of a page: what a reader sees without JavaScript. */
#ifndef TH_EXPORT_HTML_H
#define TH_EXPORT_HTML_H

#include "export/tape_json.h"

/* Draws the graph as SVG: a row for each node, leaves at the left, arcs between nodes at the right. */
void th_page_write_svg(const th_page *page, FILE *file);
/* Writes a table of all tensors: name, shape, operation, value and gradient of small ones. */
void th_page_write_table(const th_page *page, FILE *file);

#endif
