/* The static picture of the graph: a row for each node in recording order, with its leaves at the left. Arcs at the
 * right lead from the node that made an operand to the node that uses it. */
#include <inttypes.h>
#include <string.h>

#include "export/html.h"
#include "io/text_output.h"
#include "tensor/format.h"
#include "tensor/utf8.h"

enum { ROW = 26, TOP = 12, NODE_X = 330, NODE_WIDTH = 260, ARCS = 150, MAX_ROWS = 400 };

static int row_y(int64_t node)
{
    return TOP + (int)node * ROW;
}

static void put_label(FILE *file, int x, int y, const char *anchor, const char *text)
{
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor);
    th_write_html_text(file, text);
    fputs("</text>\n", file);
}

/* Draws the leaves that a node uses, as one label at its left. */
static void put_leaves(const th_page *page, FILE *file, int64_t index)
{
    const th_node *node = th_listing_node(&page->listing, index);
    char text[2 * TH_LISTED_NAME] = "";
    for (int i = 0; i < node->n_inputs; i++) {
        const int64_t id = th_listing_input(&page->listing, index, i);
        if (id < 0 || page->listing.tensor[id].producer >= 0)
            continue;
        const int room = (int)(sizeof text - strlen(text) - sizeof ", "), max_bytes = room < 60 ? room : 60;
        th_append(text, sizeof text, "%s%.*s", text[0] ? ", " : "", th_utf8_fit(page->name[id], max_bytes),
                  page->name[id]);
    }
    if (text[0] == 0)
        return;
    put_label(file, NODE_X - 14, row_y(index) + 16, "end", text);
    fprintf(file, "<path stroke=\"currentColor\" d=\"M%d %dh12\"/>\n", NODE_X - 12, row_y(index) + 11);
}

/* Draws arcs from the nodes that made the inputs. A value of the preceding node gets a short line. */
static void put_arcs(const th_page *page, FILE *file, int64_t index)
{
    const th_node *node = th_listing_node(&page->listing, index);
    for (int i = 0; i < node->n_inputs; i++) {
        const int64_t id = th_listing_input(&page->listing, index, i);
        const int64_t from = id < 0 ? -1 : page->listing.tensor[id].producer;
        if (from < 0)
            continue;
        const int right = NODE_X + NODE_WIDTH, start_y = row_y(from) + 14, end_y = row_y(index) + 8;
        if (from == index - 1) {
            fprintf(file, "<path d=\"M%d %dV%d\"/>\n", NODE_X + 24, row_y(from) + 22, row_y(index));
            continue;
        }
        const int64_t distance = index - from;
        const int bend = 14 + (int)(distance * 6 > ARCS - 30 ? ARCS - 30 : distance * 6);
        fprintf(file, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", right, start_y, right + bend, start_y, right + bend,
                end_y, right, end_y);
    }
}

static void put_node(const th_page *page, FILE *file, int64_t index)
{
    const th_node *node = th_listing_node(&page->listing, index);
    const th_array output = th_tensor_array(th_node_output(node, 0)->tensor);
    char text[TH_SHAPE_TEXT + TH_LISTED_NAME] = "";
    const char *name = page->name[th_listing_output(&page->listing, index, 0)];
    fprintf(file,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"22\" rx=\"4\" fill=\"none\" stroke=\"currentColor\"><title>",
            NODE_X, row_y(index), NODE_WIDTH);
    th_write_html_text(file, node->path[0] ? node->path : "outside modules");
    fputs("</title></rect>\n", file);
    th_append(text, sizeof text, "%" PRId64 " %.*s %s%s%.*s", index, th_utf8_fit(node->op->name, 32), node->op->name,
              output.ndim ? TH_TEXT(&output) : "", name[0] ? " = " : "", th_utf8_fit(name, 24), name);
    put_label(file, NODE_X + 8, row_y(index) + 16, "start", text);
}

void th_page_write_svg(const th_page *page, FILE *file)
{
    const int64_t rows = page->listing.nodes < MAX_ROWS ? page->listing.nodes : MAX_ROWS;
    const int width = NODE_X + NODE_WIDTH + ARCS, height = row_y(rows) + 4;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
            "aria-label=\"the recorded operations, first to last\" font-family=\"sans-serif\" font-size=\"12\" "
            "fill=\"currentColor\">\n<g fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.55\">\n",
            width, height, width, height);
    for (int64_t i = 0; i < rows; i++)
        put_arcs(page, file, i);
    fputs("</g>\n<g>\n", file);
    for (int64_t i = 0; i < rows; i++)
        put_leaves(page, file, i);
    for (int64_t i = 0; i < rows; i++)
        put_node(page, file, i);
    fputs("</g>\n</svg>\n", file);
    if (rows < page->listing.nodes)
        fprintf(file, "<p>The picture shows the first %" PRId64 " of %" PRId64 " nodes.</p>\n", rows,
                page->listing.nodes);
}
