/* Pictures as SVG files that any browser shows: curves over steps, and matrices (attention weights) as heat maps. The
 * library opens no window. */
#ifndef TAPEHEAD_PICTURE_H
#define TAPEHEAD_PICTURE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* One line of a chart. Points whose x or y is not finite (or, with log_y, not positive) interrupt it. If the picture
 * cannot show all points, it draws those that make the outline. */
typedef struct th_curve {
    const char *name; /* in the legend; NULL: not listed */
    int64_t count;
    const double *x; /* [count]; NULL: 0, 1, 2, ... */
    const double *y; /* [count] */
} th_curve;

typedef struct th_chart_options {
    const char *title, *x_label, *y_label; /* UTF-8; NULL: none */
    bool log_y;                            /* logarithmic y axis */
    bool y_from_zero; /* the y axis includes 0, so that heights can be compared. Otherwise it does so only if the
                         smallest value is positive and less than half of the largest. No effect with log_y */
} th_chart_options;

/* Draws the curves into one chart with axes, ticks and (for more than one name) a legend. Curves differ in color and
 * in dashes; readers with a color vision deficiency can tell the colors apart. If the file cannot be written
 * completely, the error is TH_ERROR_FILE and the old file stays. options may be NULL. */
TH_API th_status th_picture_curves(th_context *ctx, const char *path, const th_curve *curves, int count,
                                   const th_chart_options *options) TH_MUST_CHECK;

typedef struct th_heatmap_options {
    const char *title, *row_label, *column_label; /* "query", "key"; NULL: none */
    const char *const *panel_names;               /* [P]; NULL: "head 0", "head 1", ... when there is more than one */
    const char *const *row_names;                 /* [R]; NULL: see row_letters */
    const char *const *column_names;              /* [C]; NULL: see column_letters */
    const char *row_letters;                      /* one ASCII character for each row: "COPY"; NULL: numbers */
    const char *column_letters;                   /* for each column: "COPY|COP" */
    double high; /* the darkest color; 0, or not finite: the largest value. The lightest is 0 */
} th_heatmap_options;

/* Draws floating values (P, R, C) or (R, C) as P heat maps side by side with a color scale: darker is larger. If the
 * entries are few, the number of an entry is shown under the mouse pointer. TH_ERROR_SHAPE for more than a million
 * entries or ten thousand panels, or none; TH_ERROR_FILE. options may be NULL. */
TH_API th_status th_picture_heatmaps(th_tensor *values, const char *path,
                                     const th_heatmap_options *options) TH_MUST_CHECK;

/* One chart of several in a picture. */
typedef struct th_panel {
    const th_curve *curves;
    int count;
    th_chart_options options;
} th_panel;

/* Draws up to 64 charts side by side, two in a row, each as th_picture_curves draws it, with its own scale. Use it for
 * the curves of one run. */
TH_API th_status th_picture_panels(th_context *ctx, const char *path, const th_panel *panels, int count,
                                   const char *title) TH_MUST_CHECK;

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_picture_panels(...) TH_AT_STATUS(th_picture_panels(__VA_ARGS__))
#define th_picture_curves(...) TH_AT_STATUS(th_picture_curves(__VA_ARGS__))
#define th_picture_heatmaps(...) TH_AT_STATUS(th_picture_heatmaps(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
