/* Writes SVG. The locale does not change numbers, names are escaped, and errors are checked once, at the end. */
#ifndef TH_IO_PICTURE_H
#define TH_IO_PICTURE_H

#include "platform/atomic_file.h"
#include "tapehead/picture.h"
#include "tensor/context.h"

typedef struct th_svg {
    th_context *ctx;
    const char *path, *operation;
    FILE *file; /* the stream of atomic_file */
    th_atomic_file atomic_file;
} th_svg;

typedef enum th_anchor { TH_ANCHOR_START, TH_ANCHOR_MIDDLE, TH_ANCHOR_END } th_anchor;

/* Opens the file and draws the background of every picture: white, so that the picture is readable on a dark page. */
th_status th_svg_begin(th_svg *svg, th_context *ctx, const char *path, const char *operation, double width,
                       double height);
/* Closes the picture and moves it to its path. If a part was not written, the error is TH_ERROR_FILE, and the old file
 * stays. */
th_status th_svg_end(th_svg *svg);

/* Writes literal markup. */
void th_svg_put(th_svg *svg, const char *text);
/* Writes a number with two digits after the point. */
void th_svg_number(th_svg *svg, double value);
/* Writes text. Escapes the characters that XML reserves, and replaces those that it does not allow. */
void th_svg_escape(th_svg *svg, const char *text);
/* Writes one line of text. class names its style: "title", "label" or "tick". rotated: the text reads from the bottom
 * up. NULL text draws nothing. */
void th_svg_text(th_svg *svg, double x, double y, const char *style, th_anchor anchor, bool rotated, const char *text);
/* Begins a rectangle whose tag is still open: more attributes may follow. */
void th_svg_open_rect(th_svg *svg, double x, double y, double width, double height);
void th_svg_rect(th_svg *svg, double x, double y, double width, double height, const char *style);
void th_svg_line(th_svg *svg, double x1, double y1, double x2, double y2, const char *style);

/* -- numbers along an axis -- */
/* Numbers up to this magnitude are divided by a power of ten before they are drawn. Returns its exponent, which is 0
 * except near the limits of a double, where sums would overflow and steps would vanish. */
int th_axis_shift(double magnitude);
/* Returns value / 10^shift. */
double th_axis_shifted(double value, int shift);
/* Writes the label of a tick: the number shifted * 10^shift, with this many significant digits. */
void th_axis_label(char *text, size_t size, double shifted, int shift, int digits);
/* Returns a step of 1, 2 or 5 times a power of ten that divides `range` into at most `count` intervals. range is
 * positive and shifted. */
double th_nice_step(double range, int count);

#endif
