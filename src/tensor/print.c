/* Prints tensors in the layout of NumPy: one width for all numbers, brackets, large arrays summarized. Nothing is
 * allocated. The shown elements are read twice: first to find the widths, then to print. */
#include <math.h>
#include <string.h>

#include "tensor/convert.h"
#include "tensor/decimal.h"
#include "tensor/tensor.h"

enum { WORD_BYTES = 160 };

/* The output: a file, or memory. Text that does not fit in the memory is cut off. */
typedef struct output {
    FILE *file;
    char *text;
    size_t size;
    int64_t written;
} output;

/* The format of all numbers of the tensor. */
typedef struct format {
    th_dtype dtype;
    bool scientific;
    int precision;      /* maximum digits after the point; -1: no maximum */
    int whole_width;    /* characters before the point, with the sign; of an integer or a bool: all characters */
    int fraction_width; /* characters after the point */
    int exponent_width;
    bool always_fraction; /* "1.0" instead of "1.", as Python writes a single number */
    /* properties of the shown numbers */
    bool finite, not_finite, minus_infinity;
    double smallest, largest; /* magnitudes, of the numbers that are finite and not 0 */
} format;

typedef struct printer {
    output out;
    const th_tensor_impl *t;
    th_print_options options;
    bool summarized;
    format format;
    /* the current line */
    int64_t length; /* characters so far, with the indent */
    int spaces;     /* at the end of the line, not written yet, so that no line ends in spaces */
} printer;

/* -- output -- */

static void emit(printer *p, const char *text, size_t n)
{
    output *out = &p->out;
    if (out->file)
        fwrite(text, 1, n, out->file);
    else if ((size_t)out->written + 1 < out->size)
        memcpy(out->text + out->written, text,
               (size_t)out->written + n < out->size ? n : out->size - 1 - (size_t)out->written);
    out->written += (int64_t)n;
}

static void emit_repeated(printer *p, char c, int64_t n)
{
    for (; n > 0; n--)
        emit(p, &c, 1);
}

/* -- iterating over the shown elements -- */

typedef void element_visitor(format *f, const void *element);

/* Returns the next shown index after i. */
static int64_t shown_after(const printer *p, int axis, int64_t i)
{
    const int64_t size = p->t->size[axis], edge = p->options.edge_items;
    return p->summarized && i + 1 == edge && 2 * edge < size ? size - edge : i + 1;
}

static const char *element_at(const printer *p, const char *data, int axis, int64_t i)
{
    return data + i * p->t->stride[axis] * (int64_t)th_dtype_size(p->t->dtype);
}

static void for_each_shown(printer *p, int axis, const char *data, element_visitor *task)
{
    if (axis == p->t->ndim) {
        task(&p->format, data);
        return;
    }
    for (int64_t i = 0; i < p->t->size[axis]; i = shown_after(p, axis, i))
        for_each_shown(p, axis + 1, element_at(p, data, axis, i), task);
}

/* -- numbers -- */

static bool is_single(const format *f)
{
    return f->dtype == TH_FLOAT32;
}

static int format_integer(const format *f, const void *element, char *word)
{
    return snprintf(word, WORD_BYTES, "%lld", (long long)th_integer_read(f->dtype, element));
}

static void find_range(format *f, const void *element)
{
    const double magnitude = fabs(th_number_read(f->dtype, element));
    if (!(magnitude < INFINITY)) {
        f->not_finite = true;
        f->minus_infinity |= th_number_read(f->dtype, element) < 0;
        return;
    }
    f->finite = true;
    if (magnitude > 0) {
        f->largest = magnitude > f->largest ? magnitude : f->largest;
        f->smallest = f->smallest == 0 || magnitude < f->smallest ? magnitude : f->smallest;
    }
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static th_decimal digits_of(const format *f, double value)
{
    return f->scientific ? th_decimal_scientific(value, is_single(f), f->precision)
                         : th_decimal_positional(value, is_single(f), f->precision);
}

static void find_real_widths(format *f, const void *element)
{
    const double value = th_number_read(f->dtype, element);
    if (!isfinite(value))
        return;
    const th_decimal digits = digits_of(f, value);
    f->whole_width = larger(f->whole_width, digits.negative + (int)strlen(digits.whole));
    f->fraction_width = larger(f->fraction_width, (int)strlen(digits.fraction));
    f->exponent_width = larger(f->exponent_width, (int)strlen(digits.exponent));
}

static void find_integer_width(format *f, const void *element)
{
    char word[WORD_BYTES];
    f->whole_width = larger(f->whole_width, format_integer(f, element, word));
}

/* Writes the number to word, in the format's width. Returns its length. */
static int format_real(const format *f, double value, char *word)
{
    const int after_point = f->fraction_width + (f->scientific ? 2 + f->exponent_width : 0);
    if (!isfinite(value))
        return snprintf(word, WORD_BYTES, "%*s", f->whole_width + 1 + after_point,
                        isnan(value) ? "nan"
                        : value < 0  ? "-inf"
                                     : "inf");
    const th_decimal digits = f->scientific ? th_decimal_exact(value, f->fraction_width) : digits_of(f, value);
    char whole[TH_DECIMAL_DIGITS + 1];
    snprintf(whole, sizeof whole, "%s%s", digits.negative ? "-" : "", digits.whole);
    if (!f->scientific) {
        const char *fraction = f->always_fraction && !digits.fraction[0] ? "0" : digits.fraction;
        return snprintf(word, WORD_BYTES, "%*s.%-*s", f->whole_width, whole, f->fraction_width, fraction);
    }
    const char *point = f->always_fraction && f->fraction_width == 0 ? "" : ".";
    const int zeros = f->exponent_width - (int)strlen(digits.exponent);
    return snprintf(word, WORD_BYTES, "%*s%s%se%c%.*s%s", f->whole_width, whole, point, digits.fraction,
                    digits.exponent_negative ? '-' : '+', zeros, "00000000", digits.exponent);
}

static int format_element(const format *f, const void *element, char *word)
{
    if (th_is_floating(f->dtype))
        return format_real(f, th_number_read(f->dtype, element), word);
    if (f->dtype == TH_BOOL)
        return snprintf(word, WORD_BYTES, "%*s", f->whole_width, th_integer_read(TH_BOOL, element) ? "True" : "False");
    char digits[WORD_BYTES];
    format_integer(f, element, digits);
    return snprintf(word, WORD_BYTES, "%*s", f->whole_width, digits);
}

/* Returns true if NumPy uses scientific notation: the magnitudes are large, small or far apart. Computes in the
 * tensor's type. */
static bool needs_exponent(const format *f)
{
    if (f->largest == 0)
        return false;
    if (is_single(f))
        return f->largest >= 1e6 || (float)f->smallest < 1e-4f || (float)f->largest / (float)f->smallest > 1000.0f;
    return f->largest >= 1e8 || f->smallest < 1e-4 || f->largest / f->smallest > 1000.0;
}

static void find_format(printer *p, const char *data, bool as_python)
{
    format *f = &p->format;
    f->dtype = p->t->dtype;
    f->precision = as_python ? -1 : p->options.precision;
    if (f->dtype == TH_BOOL) {
        f->whole_width = p->t->ndim > 0 ? 5 : 0;
    } else if (!th_is_floating(f->dtype)) {
        for_each_shown(p, 0, data, find_integer_width);
    } else {
        for_each_shown(p, 0, data, find_range);
        f->always_fraction = as_python;
        f->scientific = as_python ? f->largest > 0 && (f->smallest < 1e-4 || f->largest >= (is_single(f) ? 1e6 : 1e16))
                                  : needs_exponent(f);
        for_each_shown(p, 0, data, find_real_widths);
        if (f->not_finite && !as_python) {
            const int after_point = 1 + f->fraction_width + (f->scientific ? 2 + f->exponent_width : 0);
            f->whole_width = larger(f->whole_width, 3 + f->minus_infinity - after_point);
        }
    }
}

/* -- layout -- */

static void put_word(printer *p, const char *word, int length, int64_t indent, int64_t width)
{
    if (p->length + length > width && p->length > indent) {
        emit(p, "\n", 1);
        emit_repeated(p, ' ', indent);
        p->length = indent;
        p->spaces = 0;
    }
    int visible = length;
    while (visible > 0 && word[visible - 1] == ' ')
        visible--;
    emit_repeated(p, ' ', p->spaces);
    emit(p, word, (size_t)visible);
    p->spaces = length - visible;
    p->length += length;
}

static void put_row(printer *p, const char *data, int axis)
{
    const int64_t indent = axis + 1, width = p->options.line_width - axis - 1, size = p->t->size[axis];
    char word[WORD_BYTES];
    p->length = indent;
    p->spaces = 0;
    for (int64_t i = 0, next; i < size; i = next) {
        next = shown_after(p, axis, i);
        put_word(p, word, format_element(&p->format, element_at(p, data, axis, i), word), indent, width);
        for (int gap = 0; gap < (next > i + 1) + (next < size); gap++) {
            p->length++; /* the separator */
            p->spaces++;
            if (gap < (next > i + 1))
                put_word(p, "...", 3, indent, width);
        }
    }
    emit_repeated(p, ' ', p->spaces);
}

static void put_array(printer *p, const char *data, int axis)
{
    const int ndim = p->t->ndim;
    emit(p, "[", 1);
    if (axis == ndim - 1) {
        put_row(p, data, axis);
    } else {
        for (int64_t i = 0, next; i < p->t->size[axis]; i = next) {
            next = shown_after(p, axis, i);
            put_array(p, element_at(p, data, axis, i), axis + 1);
            for (int gap = 0; gap < (next > i + 1) + (next < p->t->size[axis]); gap++) {
                emit_repeated(p, '\n', ndim - axis - 1);
                emit_repeated(p, ' ', axis + 1);
                if (gap < (next > i + 1))
                    emit(p, "...", 3);
            }
        }
    }
    emit(p, "]", 1);
}

static void put_tensor(printer *p)
{
    const char *data = th_tensor_data(p->t);
    const int64_t numel = th_tensor_numel(p->t);
    if (numel == 0) {
        emit(p, "[]", 2);
        return;
    }
    p->summarized = numel > p->options.threshold;
    if (p->t->ndim > 0) {
        find_format(p, data, false);
        put_array(p, data, 0);
    } else {
        char word[WORD_BYTES];
        find_format(p, data, p->options.precision < 0);
        emit(p, word, (size_t)format_element(&p->format, data, word));
    }
}

/* Checks the operands and fills in default options. The default precision of a single number is -1: all its digits. */
static bool check_operands(printer *p, const th_tensor *handle, const char *operation, const th_print_options *options)
{
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, operation, "t");
    if (t == NULL)
        return false;
    if (th_is_storage_type(t->dtype)) {
        th_fail(t->ctx, TH_ERROR_TYPE, operation, "%s is not printed: th_cast converts it to float32",
                th_dtype_name(t->dtype));
        return false;
    }
    p->t = t;
    p->options = options ? *options : (th_print_options){0};
    th_print_options *o = &p->options;
    if (o->precision < 0 || o->precision > TH_MAX_PRECISION || o->threshold < 0 || o->edge_items < 0 ||
        o->line_width < 0) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "the precision must be 0 to %d and no option negative",
                TH_MAX_PRECISION);
        return false;
    }
    o->precision = o->precision ? o->precision : t->ndim > 0 ? 4 : -1;
    o->threshold = o->threshold ? o->threshold : 1000;
    o->edge_items = o->edge_items ? o->edge_items : 3;
    o->line_width = o->line_width ? o->line_width : 75;
    if (th_tensor_data(t) == NULL && th_tensor_numel(t) > 0) {
        th_fail(t->ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
        return false;
    }
    return true;
}

th_status th_print(th_tensor *t, FILE *file, const th_print_options *options)
{
    printer p = {.out = {.file = file}};
    if (!check_operands(&p, t, "print", options))
        return th_pending_status(t);
    if (file == NULL)
        return th_fail(p.t->ctx, TH_ERROR_ARGUMENT, "print", "the file is NULL");
    put_tensor(&p);
    emit(&p, "\n", 1);
    return ferror(file) ? th_fail(p.t->ctx, TH_ERROR_FILE, "print", "the file could not be written") : TH_OK;
}

int64_t th_print_text(th_tensor *t, char *text, size_t size, const th_print_options *options)
{
    printer p = {.out = {.text = text, .size = text ? size : 0}};
    if (!check_operands(&p, t, "print_text", options))
        return -1;
    put_tensor(&p);
    if (p.out.size > 0)
        text[(size_t)p.out.written < size ? (size_t)p.out.written : size - 1] = 0;
    return p.out.written;
}
