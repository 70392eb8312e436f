/* Writes JSON. */
#include "models/families/writer.h"

#include <math.h>

#include "models/core/files.h"

void th_put_key(th_writer *w, const char *key)
{
    fprintf(w->file, "%s\n  \"%s\": ", w->begun ? "," : "{", key);
    w->begun = true;
}

void th_put_text(th_writer *w, const char *key, const char *text)
{
    th_put_key(w, key);
    fprintf(w->file, "\"%s\"", text);
}

void th_put_integer(th_writer *w, const char *key, int64_t value)
{
    th_put_key(w, key);
    fprintf(w->file, "%lld", (long long)value);
}

void th_put_flag(th_writer *w, const char *key, bool value)
{
    th_put_key(w, key);
    fputs(value ? "true" : "false", w->file);
}

void th_put_null(th_writer *w, const char *key)
{
    th_put_key(w, key);
    fputs("null", w->file);
}

void th_put_number(th_writer *w, const char *key, double value)
{
    th_put_key(w, key);
    th_put_value(w, value);
}

void th_put_string(th_writer *w, const char *text)
{
    fputc('"', w->file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 0x20)
            fprintf(w->file, "\\u%04x", *c);
        else
            fprintf(w->file, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    fputc('"', w->file);
}

void th_put_value(th_writer *w, double value)
{
    const bool small = value != 0 && fabs(value) < 1e-4, large = fabs(value) >= 1e16;
    const th_decimal d =
        small || large ? th_decimal_scientific(value, false, -1) : th_decimal_positional(value, false, -1);
    fprintf(w->file, "%s%s.%s", d.negative ? "-" : "", d.whole, d.fraction[0] ? d.fraction : "0");
    if (d.exponent[0])
        fprintf(w->file, "e%s%s", d.exponent_negative ? "-" : "+", d.exponent);
}
