/* th_tape_write_html: one file with sections. A section has a picture and a table for readers without JavaScript, and
 * the tape's data. The viewer (src/export/page), which the library contains, builds its figures from the data. */
#include "export/html.h"

#include <errno.h>
#include <string.h>

#include "io/text_file.h"
#include "io/text_output.h"
#include "page_script.inc"
#include "page_style.inc"
#include "platform/regular_file.h"
#include "platform/system_calls.h"

static const char operation[] = "tape_write_html";
static const char first_line[] = "<!DOCTYPE html>\n<!-- Tapehead's page of a tape -->\n";
static const char end_of_sections[] = "\n<!-- end of sections -->\n";

/* -- a new page -- */

static void put_head(FILE *file, const char *title)
{
    fputs(first_line, file);
    fputs("<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
          "style-src 'unsafe-inline'; img-src data:\">\n<title>",
          file);
    th_write_html_text(file, title);
    fputs("</title>\n<style>\n", file);
    fwrite(page_style, 1, sizeof page_style - 1, file);
    fputs("</style>\n</head>\n<body>\n<main>", file);
}

static void put_foot(FILE *file)
{
    fputs("</main>\n<script>\n", file);
    fwrite(page_script, 1, sizeof page_script - 1, file);
    fputs("</script>\n</body>\n</html>\n", file);
}

static void put_section(const th_page *page, FILE *file, const th_html_options *options, const char *title)
{
    fputs("\n<section class=\"tape\">\n<h2>", file);
    th_write_html_text(file, title);
    fputs("</h2>\n<div class=\"static\">\n", file);
    th_page_write_svg(page, file);
    th_page_write_table(page, file);
    fputs("</div>\n<script type=\"application/json\">", file);
    th_page_write_json(page, file, options);
    fputs("</script>\n</section>", file);
}

/* -- an existing page -- */

/* Returns the offset at which the sections of an open page end; -1 if it is not a page of th_tape_write_html. */
static long find_sections_end(FILE *old)
{
    char start[sizeof first_line] = "";
    if (fread(start, 1, sizeof first_line - 1, old) != sizeof first_line - 1 || strcmp(start, first_line) != 0)
        return -1;
    const size_t length = sizeof end_of_sections - 1;
    size_t matched = 0;
    long end = -1;
    for (int c; (c = fgetc(old)) != EOF;) {
        if (c != end_of_sections[matched])
            matched = 0;
        matched += c == end_of_sections[matched];
        if (matched == length) {
            end = ftell(old) - (long)length;
            matched = 0;
        }
    }
    return ferror(old) ? -1 : end;
}

/* Copies the bytes from `from` to `to` (-1: to the end). Returns false if they cannot be read. */
static bool copy_range(FILE *old, FILE *file, long from, long to)
{
    if (fseek(old, from, SEEK_SET))
        return false;
    char buffer[4096];
    for (long offset = from; to < 0 || offset < to;) {
        const size_t bytes_wanted =
            to >= 0 && to - offset < (long)sizeof buffer ? (size_t)(to - offset) : sizeof buffer;
        const size_t bytes_read = fread(buffer, 1, bytes_wanted, old);
        if (bytes_read == 0)
            return to < 0 && !ferror(old);
        fwrite(buffer, 1, bytes_read, file);
        offset += (long)bytes_read;
    }
    return true;
}

/* -- the file -- */

/* The page that gets a further section. */
typedef struct old_page {
    FILE *file; /* NULL: the page is new */
    long end;   /* of its sections */
} old_page;

/* Opens the old page, if the file exists. */
static th_status open_old_page(th_context *ctx, const char *path, old_page *old)
{
    th_file_status status;
    const int exists = th_path_exists(path, &status);
    const char *reason = exists < 0 ? strerror(errno) : NULL;
    old->file = exists > 0 ? th_regular_open(path, NULL, &reason) : NULL;
    if (reason)
        return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s cannot be read: %s", path, reason);
    old->end = old->file ? find_sections_end(old->file) : 0;
    if (old->end < 0)
        return th_fail(ctx, TH_ERROR_FILE, operation,
                       "%.300s is not a page of th_tape_write_html; without append it would be replaced", path);
    return TH_OK;
}

/* Writes the page to an open file: a new one, or the old one with a section more. */
static bool write_page(const th_page *page, FILE *file, const old_page *old, const th_html_options *options)
{
    const char *title = options->title ? options->title : "Tape";
    if (old->file && !copy_range(old->file, file, 0, old->end))
        return false;
    if (old->file == NULL)
        put_head(file, title);
    put_section(page, file, options, title);
    if (old->file)
        return copy_range(old->file, file, old->end, -1) && !ferror(file);
    fputs(end_of_sections, file);
    put_foot(file);
    return !ferror(file);
}

static th_status write_file(const th_page *page, th_context *ctx, const char *path, const th_html_options *options)
{
    old_page old = {NULL, 0};
    th_atomic_file file;
    if ((!options->append || open_old_page(ctx, path, &old) == TH_OK) &&
        th_text_file_begin(&file, ctx, path, operation) == TH_OK)
        th_text_file_end(&file, write_page(page, file.file, &old, options), ctx, path, operation);
    if (old.file)
        fclose(old.file);
    return ctx->error;
}

th_status th_tape_write_html(th_context *ctx, const char *path, const th_html_options *options)
{
    const th_html_options defaults = {0};
    options = options ? options : &defaults;
    if (!th_usable_context(ctx, operation))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (path == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
    if (options->n_tokens < 0 || (options->n_tokens > 0 && options->tokens == NULL))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "n_tokens is %d, and tokens is %s", options->n_tokens,
                       options->tokens ? "given" : "NULL");
    th_page page;
    if (th_page_begin(&page, ctx, options, operation) == TH_OK)
        write_file(&page, ctx, path, options);
    th_page_end(&page);
    return ctx->error;
}
