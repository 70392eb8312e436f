/* The SVG writer that all pictures share. */
#include <math.h>
#include <stdlib.h>

#include "io/picture.h"
#include "io/text_file.h"
#include "io/text_output.h"
#include "tensor/decimal.h"
#include "tensor/format.h"

static const char style[] = "<style>"
                            "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}"
                            ".title{font-size:16px;font-weight:600}"
                            ".label{font-size:13px}"
                            ".tick{font-size:11px;fill:#57606a}"
                            ".card{fill:#ffffff}"
                            ".grid{stroke:#e4e8ec;stroke-width:1}"
                            ".axis{stroke:#8c959f;stroke-width:1}"
                            ".frame{fill:none;stroke:#8c959f;stroke-width:1}"
                            ".empty{fill:#f6f8fa}"
                            ".curve{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
                            "</style>\n";

/* Writes ` name="value"`. */
static void put_attribute(th_svg *svg, const char *name, double value)
{
    fprintf(svg->file, " %s=\"", name);
    th_svg_number(svg, value);
    th_svg_put(svg, "\"");
}

th_status th_svg_begin(th_svg *svg, th_context *ctx, const char *path, const char *operation, double width,
                       double height)
{
    svg->ctx = ctx;
    svg->path = path;
    svg->operation = operation;
    if (th_text_file_begin(&svg->atomic_file, ctx, path, operation) != TH_OK)
        return ctx->error;
    svg->file = svg->atomic_file.file;
    th_svg_put(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    put_attribute(svg, "width", width);
    put_attribute(svg, "height", height);
    th_svg_put(svg, " viewBox=\"0 0 ");
    th_svg_number(svg, width);
    th_svg_put(svg, " ");
    th_svg_number(svg, height);
    th_svg_put(svg, "\">\n");
    th_svg_put(svg, style);
    th_svg_rect(svg, 0, 0, width, height, "card");
    return TH_OK;
}

th_status th_svg_end(th_svg *svg)
{
    th_svg_put(svg, "</svg>\n");
    const bool written = !ferror(svg->file);
    svg->file = NULL;
    return th_text_file_end(&svg->atomic_file, written, svg->ctx, svg->path, svg->operation);
}

void th_svg_put(th_svg *svg, const char *text)
{
    fputs(text, svg->file);
}

void th_svg_number(th_svg *svg, double value)
{
    const double bounded = isfinite(value) ? fmax(-1e9, fmin(1e9, value)) : 0;
    const long long hundredths = llround(100 * bounded);
    const long long size = hundredths < 0 ? -hundredths : hundredths;
    fprintf(svg->file, "%s%lld", hundredths < 0 ? "-" : "", size / 100);
    if (size % 100)
        fprintf(svg->file, size % 10 ? ".%02lld" : ".%lld", size % 10 ? size % 100 : size % 100 / 10);
}

void th_svg_escape(th_svg *svg, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        const int length = th_utf8_length(c);
        const bool invalid =
            length == 0 || (length == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe); /* U+FFFE, F */
        if (invalid)
            th_svg_put(svg, "\xEF\xBF\xBD");
        else if (*c == '<')
            th_svg_put(svg, "&lt;");
        else if (*c == '>')
            th_svg_put(svg, "&gt;");
        else if (*c == '&')
            th_svg_put(svg, "&amp;");
        else if (*c == '"')
            th_svg_put(svg, "&quot;");
        else if (*c < 32)
            th_svg_put(svg, " ");
        else
            fwrite(c, 1, (size_t)length, svg->file);
        c += length ? length : 1;
    }
}

void th_svg_text(th_svg *svg, double x, double y, const char *style_name, th_anchor anchor, bool rotated,
                 const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    if (text == NULL || text[0] == 0)
        return;
    th_svg_put(svg, "<text");
    if (rotated) {
        th_svg_put(svg, " transform=\"translate(");
        th_svg_number(svg, x);
        th_svg_put(svg, ",");
        th_svg_number(svg, y);
        th_svg_put(svg, ") rotate(-90)\"");
    } else {
        put_attribute(svg, "x", x);
        put_attribute(svg, "y", y);
    }
    fprintf(svg->file, " class=\"%s\" text-anchor=\"%s\">", style_name, anchors[anchor]);
    th_svg_escape(svg, text);
    th_svg_put(svg, "</text>\n");
}

/* Begins an element with four numbers as its position; more attributes may follow. */
static void open_element(th_svg *svg, const char *element, const char *const name[4], const double value[4])
{
    fprintf(svg->file, "<%s", element);
    for (int i = 0; i < 4; i++)
        put_attribute(svg, name[i], value[i]);
}

void th_svg_open_rect(th_svg *svg, double x, double y, double width, double height)
{
    open_element(svg, "rect", (const char *const[]){"x", "y", "width", "height"},
                 (const double[]){x, y, width, height});
}

void th_svg_rect(th_svg *svg, double x, double y, double width, double height, const char *style_name)
{
    th_svg_open_rect(svg, x, y, width, height);
    fprintf(svg->file, " class=\"%s\"/>\n", style_name);
}

void th_svg_line(th_svg *svg, double x1, double y1, double x2, double y2, const char *style_name)
{
    open_element(svg, "line", (const char *const[]){"x1", "y1", "x2", "y2"}, (const double[]){x1, y1, x2, y2});
    fprintf(svg->file, " class=\"%s\"/>\n", style_name);
}

enum { SHIFT = 300 };

int th_axis_shift(double magnitude)
{
    return magnitude > 1e300 ? SHIFT : magnitude > 0 && magnitude < 1e-290 ? -SHIFT : 0;
}

double th_axis_shifted(double value, int shift)
{
    return shift > 0 ? value / 1e300 : shift < 0 ? value * 1e300 : value;
}

void th_axis_label(char *text, size_t size, double shifted, int shift, int digits)
{
    if (shift == 0 || shifted == 0) {
        th_format(text, size, "%.*g", digits, shifted);
        return;
    }
    const th_decimal d = th_decimal_scientific(shifted, false, digits - 1);
    const int exponent = (d.exponent_negative ? -atoi(d.exponent) : atoi(d.exponent)) + shift;
    th_format(text, size, "%s%s%s%se%+03d", d.negative ? "-" : "", d.whole, d.fraction[0] ? "." : "", d.fraction,
              exponent);
}

double th_nice_step(double range, int count)
{
    const double smallest = range / count;
    const double power = pow(10, floor(log10(smallest)));
    static const double nice[] = {1, 2, 5};
    for (int i = 0; i < 3; i++)
        if (nice[i] * power >= smallest * (1 - 1e-9))
            return nice[i] * power;
    return 10 * power;
}
