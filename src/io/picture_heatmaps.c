/* Matrices as heat maps: attention weights, one panel for each head. */
#include <math.h>
#include <string.h>

#include "io/picture.h"
#include "tensor/convert.h"
#include "tensor/format.h"
#include "tensor/tensor.h"

enum { MAX_ENTRIES = 1000000, MAX_PANELS = 10000, MAX_SHOWN_VALUES = 6000, LEVELS = 64 };

static const double panel_width = 420; /* the approximate width of a panel in pixels */
static const double margin = 24, gap = 34, scale_width = 84;

typedef struct heatmap {
    th_array values; /* (P, R, C) */
    const th_heatmap_options *options;
    int64_t panels, rows, columns;
    double high, cell;                  /* the value with the darkest color; pixels of one entry */
    double row_width, column_width;     /* pixels for the names of rows and columns */
    size_t row_letters, column_letters; /* lengths of the options of the same names */
    bool shows_values;
} heatmap;

static double entry_value(const heatmap *m, int64_t p, int64_t r, int64_t c)
{
    const int64_t offset = p * m->values.stride[0] + r * m->values.stride[1] + c * m->values.stride[2];
    const th_dtype dtype = m->values.dtype;
    return th_number_read(dtype, (const char *)m->values.data + offset * (int64_t)th_dtype_size(dtype));
}

/* Writes a color from white through blue to nearly black, by level 0 .. LEVELS. A tenth of LEVELS is already dark
 * enough to be visible. */
static void put_color(th_svg *svg, int level)
{
    static const double stop[5][3] = {{246, 248, 250}, {182, 214, 242}, {84, 156, 216}, {22, 88, 168}, {8, 32, 84}};
    const double stop_position = 4 * sqrt((double)level / (double)LEVELS);
    const int low = stop_position >= 4 ? 3 : (int)stop_position;
    const double fraction = stop_position - low;
    fputc('#', svg->file);
    for (int i = 0; i < 3; i++)
        fprintf(svg->file, "%02x", (unsigned)lround(stop[low][i] + fraction * (stop[low + 1][i] - stop[low][i])));
}

/* Returns the level of a value; -1 for NaN. */
static int level_of(const heatmap *m, double value)
{
    if (!isfinite(value))
        return -1;
    const double share = m->high > 0 ? value / m->high : 0;
    return share <= 0 ? 0 : share >= 1 ? LEVELS : (int)ceil(share * (double)LEVELS);
}

static void put_cells(th_svg *svg, double x, double y, double width, double height, int level)
{
    th_svg_open_rect(svg, x, y, width, height);
    th_svg_put(svg, " fill=\"");
    if (level < 0)
        th_svg_put(svg, "#d1242f");
    else
        put_color(svg, level);
    th_svg_put(svg, "\"");
}

/* Returns the name of row or column i. text holds it if it is a number. */
static const char *line_name(const heatmap *m, bool columns, int64_t i, char text[24])
{
    const th_heatmap_options *o = m->options;
    const char *const *names = columns ? o->column_names : o->row_names;
    if (names && names[i])
        return names[i];
    const char *letters = columns ? o->column_letters : o->row_letters;
    if (letters && (size_t)i < (columns ? m->column_letters : m->row_letters))
        snprintf(text, 24, "%c", letters[i]);
    else
        snprintf(text, 24, "%lld", (long long)i);
    return text;
}

/* Returns true if the rows or columns have names other than their numbers. */
static bool has_names(const heatmap *m, bool columns)
{
    return columns ? m->options->column_names || m->options->column_letters
                   : m->options->row_names || m->options->row_letters;
}

static void draw_entries(th_svg *svg, const heatmap *m, int64_t p, double x, double y)
{
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t c = 0; c < m->columns;) {
            const double value = entry_value(m, p, r, c);
            const int level = level_of(m, value);
            int64_t end = c + 1;
            while (!m->shows_values && end < m->columns && level_of(m, entry_value(m, p, r, end)) == level)
                end++;
            if (level != 0 || m->shows_values) {
                put_cells(svg, x + (double)c * m->cell, y + (double)r * m->cell, (double)(end - c) * m->cell, m->cell,
                          level);
                if (m->shows_values) {
                    th_svg_put(svg, "><title>");
                    char text[24];
                    th_svg_escape(svg, line_name(m, false, r, text));
                    th_svg_put(svg, " \xE2\x86\x90 "); /* the arrow points from the key's column to the query's row */
                    th_svg_escape(svg, line_name(m, true, c, text));
                    if (isnan(value))
                        th_svg_put(svg, ": NaN</title></rect>\n");
                    else
                        th_format_to(svg->file, ": %.4g</title></rect>\n", value);
                } else {
                    th_svg_put(svg, "/>\n");
                }
            }
            c = end;
        }
}

/* Writes names or numbers along one side, as many as fit. */
static void draw_side(th_svg *svg, const heatmap *m, bool columns, double x, double y)
{
    const int64_t count = columns ? m->columns : m->rows;
    const double least_spacing = columns && !has_names(m, true) ? 22
                                 : has_names(m, columns)        ? 9
                                                                : 12; /* pixels between two */
    const int64_t label_step = m->cell >= least_spacing ? 1 : (int64_t)th_nice_step(least_spacing / m->cell, 1);
    for (int64_t i = 0; i < count; i += label_step) {
        char text[24];
        const char *name = line_name(m, columns, i, text);
        const double along = ((double)i + 0.5) * m->cell;
        const bool rotated = columns && m->options->column_names && m->column_width > 20;
        if (!columns)
            th_svg_text(svg, x - 5, y + along + 4, "tick", TH_ANCHOR_END, false, name);
        else if (rotated)
            th_svg_text(svg, x + along + 4, y - 5, "tick", TH_ANCHOR_START, true, name);
        else
            th_svg_text(svg, x + along, y - 5, "tick", TH_ANCHOR_MIDDLE, false, name);
    }
}

static void draw_scale(th_svg *svg, const heatmap *m, double x, double y, double height)
{
    for (int i = 0; i < LEVELS; i++) {
        put_cells(svg, x, y + height * (LEVELS - 1 - i) / (double)LEVELS, 14, height / (double)LEVELS + 0.5, i + 1);
        th_svg_put(svg, "/>\n");
    }
    th_svg_rect(svg, x, y, 14, height, "frame");
    const int shift = th_axis_shift(m->high);
    const double high = th_axis_shifted(m->high, shift), step = high > 0 ? th_nice_step(high, 5) : 1;
    for (double t = 0; t * step <= high * (1 + 1e-9); t++) {
        char text[64];
        th_axis_label(text, sizeof text, t * step, shift, 3);
        const double tick = y + height * (1 - (high > 0 ? t * step / high : 0));
        th_svg_line(svg, x + 14, tick, x + 18, tick, "axis");
        th_svg_text(svg, x + 22, tick + 4, "tick", TH_ANCHOR_START, false, text);
    }
}

/* Returns the pixels that the longest name needs, about 6.5 for a character. */
static double names_width(const heatmap *m, bool columns)
{
    const int64_t count = columns ? m->columns : m->rows;
    size_t longest = 0;
    for (int64_t i = 0; i < count; i++) {
        char text[24];
        size_t characters = 0;
        for (const char *c = line_name(m, columns, i, text); *c; c++)
            characters += ((unsigned char)*c & 0xC0) != 0x80; /* continuation bytes of UTF-8 are not counted */
        longest = characters > longest ? characters : longest;
    }
    return 8 + 6.5 * (double)longest;
}

static void draw_panels(th_svg *svg, const heatmap *m, int64_t per_row, double x0, double y0, double step_x,
                        double step_y)
{
    const double width = (double)m->columns * m->cell, height = (double)m->rows * m->cell;
    for (int64_t p = 0; p < m->panels; p++) {
        const double x = x0 + (double)(p % per_row) * step_x, y = y0 + (double)(p / per_row) * step_y;
        char text[64];
        snprintf(text, sizeof text, "head %lld", (long long)p);
        const char *name = m->options->panel_names ? m->options->panel_names[p] : m->panels > 1 ? text : NULL;
        th_svg_text(svg, x + width / 2, y - m->column_width - 8, "label", TH_ANCHOR_MIDDLE, false, name);
        th_svg_rect(svg, x, y, width, height, "empty");
        draw_entries(svg, m, p, x, y);
        th_svg_rect(svg, x, y, width, height, "frame");
        draw_side(svg, m, true, x, y);
        draw_side(svg, m, false, x, y);
        if (p % per_row == 0)
            th_svg_text(svg, x - m->row_width - 8, y + height / 2, "label", TH_ANCHOR_MIDDLE, true,
                        m->options->row_label);
        if (p / per_row == (m->panels - 1) / per_row || p + per_row >= m->panels)
            th_svg_text(svg, x + width / 2, y + height + 20, "label", TH_ANCHOR_MIDDLE, false,
                        m->options->column_label);
    }
}

th_status th_picture_heatmaps(th_tensor *handle, const char *path, const th_heatmap_options *options)
{
    static const th_heatmap_options defaults = {0};
    const char *operation = "picture_heatmaps";
    const th_tensor_impl *values = th_usable_tensor(handle, NULL, operation, "values");
    if (values == NULL)
        return th_pending_status(handle);
    th_context *ctx = values->ctx;
    heatmap m = {.values = th_tensor_array(values), .options = options ? options : &defaults};
    const int64_t numel = th_tensor_numel(values);
    if (path == NULL || !th_is_floating(values->dtype) || ctx->options.shapes_only)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a path and floating-point values");
    if (m.values.ndim < 2 || m.values.ndim > 3 || numel == 0 || numel > MAX_ENTRIES ||
        (m.values.ndim == 3 && m.values.size[0] > MAX_PANELS))
        return th_fail(ctx, TH_ERROR_SHAPE, operation,
                       "values must be (panels, rows, columns) or (rows, columns) with 1 to %d entries in at most %d "
                       "panels; they are %s",
                       MAX_ENTRIES, MAX_PANELS, TH_TEXT(&m.values));
    if (m.values.ndim == 2) {
        memmove(m.values.size + 1, m.values.size, 2 * sizeof m.values.size[0]);
        memmove(m.values.stride + 1, m.values.stride, 2 * sizeof m.values.stride[0]);
        m.values.size[0] = 1;
    }
    m.panels = m.values.size[0];
    m.rows = m.values.size[1];
    m.columns = m.values.size[2];
    m.shows_values = numel <= MAX_SHOWN_VALUES;
    const bool given = m.options->high > 0 && isfinite(m.options->high);
    m.high = given ? m.options->high : 0;
    for (int64_t i = 0; !given && i < numel; i++) {
        const double value = entry_value(&m, i / m.columns / m.rows, i / m.columns % m.rows, i % m.columns);
        m.high = isfinite(value) && value > m.high ? value : m.high;
    }
    const double longer = (double)(m.rows > m.columns ? m.rows : m.columns);
    m.cell = fmin(fmax(panel_width / longer, 1), 30);
    m.cell = m.cell >= 2 ? floor(m.cell) : m.cell;
    m.row_letters = m.options->row_letters ? strlen(m.options->row_letters) : 0;
    m.column_letters = m.options->column_letters ? strlen(m.options->column_letters) : 0;
    m.row_width = names_width(&m, false);
    m.column_width = m.options->column_names ? fmax(names_width(&m, true), 15) : 15; /* only names are rotated */

    const double width = (double)m.columns * m.cell, height = (double)m.rows * m.cell;
    int64_t per_row = m.panels;
    while (per_row > 1 && (double)per_row * (width + m.row_width + gap) > 1100)
        per_row = (per_row + 1) / 2;
    const int64_t panel_rows = (m.panels + per_row - 1) / per_row;
    const double step_x = width + m.row_width + gap, step_y = height + m.column_width + 62;
    const double x0 = margin + 24 + m.row_width, y0 = (m.options->title ? 48 : 16) + 24 + m.column_width;
    const double scale_x = x0 + (double)(per_row - 1) * step_x + width + 24;
    th_svg svg;
    if (th_svg_begin(&svg, ctx, path, operation, scale_x + scale_width,
                     y0 + (double)(panel_rows - 1) * step_y + height + 40) != TH_OK)
        return ctx->error;
    th_svg_text(&svg, margin, 30, "title", TH_ANCHOR_START, false, m.options->title);
    draw_panels(&svg, &m, per_row, x0, y0, step_x, step_y);
    draw_scale(&svg, &m, scale_x, y0, fmin(height, 240));
    return th_svg_end(&svg);
}
