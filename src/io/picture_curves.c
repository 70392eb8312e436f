/* Curves in a chart, or in several charts side by side: loss over steps, for example. */
#include <math.h>

#include "io/picture.h"
#include "tensor/format.h"

/* The rectangle of a chart in the picture, including the labels of its axes. */
typedef struct frame {
    double x, y, width, height;
} frame;
static const frame single_frame = {0, 0, 760, 440};
static const double margin_left = 72, margin_right = 24, margin_top = 52, margin_bottom = 60;

static const double panel_width = 620, panel_height = 340, panels_top = 44;
enum { MAX_PANELS = 64 };

/* Seven colors of Okabe and Ito (2008) that are dark enough for thin lines. People with any of the common color vision
 * deficiencies can tell them apart. Five dashes distinguish curves without color. Together they make 35 styles. */
static const char *const color[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#24292f", "#56b4e9"};
static const char *const dashes[] = {"", "7 4", "2 4", "10 4 2 4", "14 5"};
enum { COLORS = sizeof color / sizeof *color, DASHES = sizeof dashes / sizeof *dashes };

/* One axis: data low .. high, shifted, on pixels from .. to. */
typedef struct axis {
    double low, high, from, to, step; /* step between ticks; 1 decade on a logarithmic axis */
    int shift;
    bool logarithmic;
} axis;

static double axis_value(const axis *a, double value)
{
    return a->logarithmic ? log10(value) : th_axis_shifted(value, a->shift);
}

/* Returns the pixel of a value of axis_value. */
static double pixel_of(const axis *a, double value)
{
    return a->from + (value - a->low) / (a->high - a->low) * (a->to - a->from);
}

static double curve_x(const th_curve *c, int64_t i)
{
    return c->x ? c->x[i] : (double)i;
}

static bool is_drawn(const th_curve *c, int64_t i, bool log_y)
{
    return isfinite(curve_x(c, i)) && isfinite(c->y[i]) && (!log_y || c->y[i] > 0);
}

/* Returns the shift for magnitudes above 1, and 0 for smaller ones. Numbers too small to differ from 0 on an axis of
 * length 1 appear at 0. */
static int shift_for(double magnitude)
{
    return magnitude > 1 ? th_axis_shift(magnitude) : 0;
}

/* Includes 0 in an axis if the options ask for it, or if the data come close to it. */
static void include_zero(axis *y, bool asked)
{
    if (asked || (y->low > 0 && y->low < 0.5 * y->high)) {
        y->low = fmin(y->low, 0);
        y->high = fmax(y->high, 0);
    }
}

/* Fits both axes to the data. */
static void fit_axes(const frame *f, const th_curve *curves, int count, const th_chart_options *options, axis *x,
                     axis *y)
{
    const bool log_y = options->log_y;
    double largest_x = 0, largest_y = 0;
    for (int c = 0; c < count; c++)
        for (int64_t i = 0; i < curves[c].count; i++)
            if (is_drawn(&curves[c], i, log_y)) {
                largest_x = fmax(largest_x, fabs(curve_x(&curves[c], i)));
                largest_y = fmax(largest_y, fabs(curves[c].y[i]));
            }
    *x = (axis){.low = INFINITY,
                .high = -INFINITY,
                .from = f->x + margin_left,
                .to = f->x + f->width - margin_right,
                .shift = shift_for(largest_x)};
    *y = (axis){.low = INFINITY,
                .high = -INFINITY,
                .from = f->y + f->height - margin_bottom,
                .to = f->y + margin_top,
                .shift = log_y ? 0 : shift_for(largest_y),
                .logarithmic = log_y};
    for (int c = 0; c < count; c++)
        for (int64_t i = 0; i < curves[c].count; i++)
            if (is_drawn(&curves[c], i, log_y)) {
                const double px = axis_value(x, curve_x(&curves[c], i)), py = axis_value(y, curves[c].y[i]);
                x->low = fmin(x->low, px);
                x->high = fmax(x->high, px);
                y->low = fmin(y->low, py);
                y->high = fmax(y->high, py);
            }
    if (!(x->low <= x->high)) { /* no data: an empty chart from 0 to 1 */
        x->low = y->low = 0;
        x->high = y->high = 1;
    }
    if (!log_y)
        include_zero(y, options->y_from_zero);
    if (x->high - x->low < 1e-9 * fmax(1, fabs(x->high)))
        x->high = x->low + fmax(1, 1e-6 * fabs(x->low));
    if (y->high - y->low < 1e-9 * fmax(1e-30, fabs(y->high))) {
        const double margin = fmax(0.5 * fabs(y->high), 0.5);
        y->low -= log_y ? 0.5 : margin;
        y->high += log_y ? 0.5 : margin;
    }
    x->step = th_nice_step(x->high - x->low, 8);
    y->step = log_y ? fmax(1, ceil((y->high - y->low) / 6)) : th_nice_step(y->high - y->low, 6);
    if (!log_y)
        y->high = ceil(y->high / y->step - 1e-9) * y->step;
    else if (y->high - y->low < 2) { /* at least a tick at each end */
        y->low = floor(y->low);
        y->high = ceil(y->high);
    }
}

static void draw_axes(th_svg *svg, const axis *x, const axis *y)
{
    char text[64];
    for (double t = ceil(y->low / y->step - 1e-9); t * y->step <= y->high + 1e-9 * (y->high - y->low); t++) {
        const double value = t * y->step;
        const double pixel = pixel_of(y, value);
        th_svg_line(svg, x->from, pixel, x->to, pixel, "grid");
        if (y->logarithmic && fabs(value) > 300) /* 10^value may overflow or underflow */
            th_format(text, sizeof text, "1e%+.0f", value);
        else
            th_axis_label(text, sizeof text, y->logarithmic ? pow(10, value) : t == 0 ? 0.0 : value, y->shift, 6);
        th_svg_text(svg, x->from - 8, pixel + 4, "tick", TH_ANCHOR_END, false, text);
    }
    for (double t = ceil(x->low / x->step - 1e-9); t * x->step <= x->high + 1e-9 * (x->high - x->low); t++) {
        const double pixel = pixel_of(x, t * x->step);
        th_svg_line(svg, pixel, y->from, pixel, y->from + 5, "axis");
        th_axis_label(text, sizeof text, t == 0 ? 0.0 : t * x->step, x->shift, 6);
        th_svg_text(svg, pixel, y->from + 19, "tick", TH_ANCHOR_MIDDLE, false, text);
    }
    th_svg_line(svg, x->from, y->from, x->to, y->from, "axis");
    th_svg_line(svg, x->from, y->from, x->from, y->to, "axis");
}

/* The points in one column of pixels. Its first, lowest, highest and last point draw the same line as all of them. */
typedef struct column {
    int64_t number;
    int points;
    double point[4][2]; /* x, y: first, lowest, highest, last */
} column;

static void put_point(th_svg *svg, const double point[2], bool *pen_down)
{
    th_svg_put(svg, *pen_down ? "L" : "M");
    th_svg_number(svg, point[0]);
    th_svg_put(svg, " ");
    th_svg_number(svg, point[1]);
    if (!*pen_down)
        th_svg_put(svg, "h0"); /* a single point appears as a dot */
    *pen_down = true;
}

static void end_column(th_svg *svg, column *c, bool *pen_down)
{
    if (c->points > 0)
        put_point(svg, c->point[0], pen_down);
    if (c->points > 2) {
        const bool lowest_first = c->point[1][0] <= c->point[2][0];
        put_point(svg, c->point[lowest_first ? 1 : 2], pen_down);
        put_point(svg, c->point[lowest_first ? 2 : 1], pen_down);
    }
    if (c->points > 1)
        put_point(svg, c->point[3], pen_down);
    c->points = 0;
}

static void set_point(column *c, int index, double x, double y)
{
    c->point[index][0] = x;
    c->point[index][1] = y;
}

/* Adds a point to the column. */
static void add_to_column(column *c, double x, double y)
{
    if (c->points == 0)
        set_point(c, 0, x, y);
    if (c->points == 1 || (c->points > 1 && y > c->point[1][1]))
        set_point(c, 1, x, y);
    if (c->points == 1 || (c->points > 1 && y < c->point[2][1]))
        set_point(c, 2, x, y);
    set_point(c, 3, x, y);
    c->points++;
}

/* Writes the attributes that distinguish curve `number` from the others. */
static void put_line_style(th_svg *svg, int number)
{
    fprintf(svg->file, " stroke=\"%s\"", color[number % COLORS]);
    if (dashes[number % DASHES][0])
        fprintf(svg->file, " stroke-dasharray=\"%s\"", dashes[number % DASHES]);
}

static void draw_curve(th_svg *svg, const th_curve *c, int style_number, const axis *x, const axis *y)
{
    bool pen_down = false;
    column current = {0};
    th_svg_put(svg, "<path class=\"curve\"");
    put_line_style(svg, style_number);
    th_svg_put(svg, " d=\"");
    for (int64_t i = 0; i < c->count; i++) {
        if (!is_drawn(c, i, y->logarithmic)) {
            end_column(svg, &current, &pen_down);
            pen_down = false;
            continue;
        }
        const double px = pixel_of(x, axis_value(x, curve_x(c, i))), py = pixel_of(y, axis_value(y, c->y[i]));
        const int64_t number = llround(px);
        if (number != current.number)
            end_column(svg, &current, &pen_down);
        current.number = number;
        add_to_column(&current, px, py);
    }
    end_column(svg, &current, &pen_down);
    th_svg_put(svg, "\"/>\n");
}

static void draw_legend(th_svg *svg, const frame *f, const th_curve *curves, int count)
{
    double baseline = f->y + margin_top + 16;
    for (int c = 0; c < count && count > 1; c++) {
        if (curves[c].name == NULL)
            continue;
        const double x = f->x + f->width - margin_right - 150;
        th_svg_put(svg, "<g stroke-width=\"3\"");
        put_line_style(svg, c);
        th_svg_put(svg, ">");
        th_svg_line(svg, x - 8, baseline - 4, x + 22, baseline - 4, "key");
        th_svg_put(svg, "</g>\n");
        th_svg_text(svg, x + 30, baseline, "label", TH_ANCHOR_START, false, curves[c].name);
        baseline += 20;
    }
}

static void draw_chart(th_svg *svg, const frame *f, const th_curve *curves, int count, const th_chart_options *options)
{
    axis x, y;
    fit_axes(f, curves, count, options, &x, &y);
    th_svg_text(svg, f->x + margin_left, f->y + 28, "title", TH_ANCHOR_START, false, options->title);
    draw_axes(svg, &x, &y);
    for (int c = 0; c < count; c++)
        draw_curve(svg, &curves[c], c, &x, &y);
    draw_legend(svg, f, curves, count);
    th_svg_text(svg, (x.from + x.to) / 2, f->y + f->height - 16, "label", TH_ANCHOR_MIDDLE, false, options->x_label);
    th_svg_text(svg, f->x + 20, (y.from + y.to) / 2, "label", TH_ANCHOR_MIDDLE, true, options->y_label);
}

static const char curves_text[] = "picture_curves", panels_text[] = "picture_panels";

static th_status check_curves(th_context *ctx, const char *path, const th_curve *curves, int count,
                              const char *operation)
{
    bool legal = path && count >= 0 && (curves || count == 0);
    for (int c = 0; legal && c < count; c++)
        legal = curves[c].count >= 0 && (curves[c].y || curves[c].count == 0);
    return legal ? TH_OK
                 : th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a path and %d curves with their points", count);
}

th_status th_picture_curves(th_context *ctx, const char *path, const th_curve *curves, int count,
                            const th_chart_options *options)
{
    const th_chart_options given = options ? *options : (th_chart_options){0};
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (th_failed(ctx) || check_curves(ctx, path, curves, count, curves_text) != TH_OK)
        return ctx->error;
    th_svg svg;
    if (th_svg_begin(&svg, ctx, path, curves_text, single_frame.width, single_frame.height) != TH_OK)
        return ctx->error;
    draw_chart(&svg, &single_frame, curves, count, &given);
    return th_svg_end(&svg);
}

th_status th_picture_panels(th_context *ctx, const char *path, const th_panel *panels, int count, const char *title)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (th_failed(ctx))
        return ctx->error;
    if (count < 1 || count > MAX_PANELS || panels == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, panels_text, "a picture has 1 to %d panels, not %d", (int)MAX_PANELS,
                       count);
    for (int p = 0; p < count; p++)
        if (check_curves(ctx, path, panels[p].curves, panels[p].count, panels_text) != TH_OK)
            return ctx->error;
    const int columns = count > 1 ? 2 : 1, rows = (count + columns - 1) / columns;
    const double above = title ? panels_top : 0;
    th_svg svg;
    if (th_svg_begin(&svg, ctx, path, panels_text, columns * panel_width, above + rows * panel_height) != TH_OK)
        return ctx->error;
    th_svg_text(&svg, margin_left, 34, "title", TH_ANCHOR_START, false, title);
    for (int p = 0; p < count; p++) {
        const frame f = {p % columns * panel_width, above + p / columns * panel_height, panel_width, panel_height};
        draw_chart(&svg, &f, panels[p].curves, panels[p].count, &panels[p].options);
    }
    return th_svg_end(&svg);
}
