/* What the programs of the class share: their options, and matrices printed in up to three versions. The lessons are in
 * the programs. teaching/lessons/README.md is the class.
 *
 * Each program computes its numbers in plain C and on the tape, and prints both. A gradient of an input is also printed
 * as a central difference. The program fails if the versions differ. */
#ifndef EXAMPLES_CLASS_LESSON_H
#define EXAMPLES_CLASS_LESSON_H

#include <math.h>
#include <tapehead/tapehead.h>

#include "options.h"

static struct {
    const char *path, *program, *title, *page; /* page: the file to write; NULL: none, or already written */
    int64_t digits;
    int compared, wrong;
} lesson = {.digits = 4};

/* Parses the options and creates the context of the lesson. */
static inline th_context *begin_lesson(int argc, char **argv, const char *about)
{
    const char *slash = strrchr(argv[0], '/');
    lesson.path = argv[0];
    lesson.program = slash ? slash + 1 : argv[0];
    const program_option options[] = {
        {"digits", "digits after the point", .integer = &lesson.digits, .low = 1, .high = 17},
        {"page", "write the tape to this file, a page for a browser", .text = &lesson.page},
        {0}};
    lesson.title = about;
    parse_options(argc, argv, lesson.program, about, options);
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .default_dtype = TH_FLOAT64});
    if (ctx == NULL)
        give_up(lesson.program, "no memory");
    th_keep_values(ctx, true);
    return ctx;
}

/* Creates a tensor with a name from an array. Backward computes its gradient. */
static inline th_tensor *leaf(th_context *ctx, const char *name, th_shape shape, const double *data)
{
    return th_set_name(th_set_requires_gradient(th_from_data(ctx, TH_FLOAT64, shape, data), true), name);
}

/* Prints a text and fills up with spaces to a width. Continuation bytes of UTF-8 have no width. */
static inline void print_padded(const char *text, int width)
{
    for (; *text; width -= (*text++ & 0xC0) != 0x80)
        putchar(*text);
    printf("%*s", width > 0 ? width : 0, "");
}

/* Prints a number. An exact 0 is printed as 0, a small number as 0.0000. */
static inline void print_number(double x)
{
    const int digits = (int)lesson.digits;
    printf(" %*.*f", digits + 4, x == 0 ? 0 : digits, fabs(x) < 0.5 * pow(10, -digits) ? 0 : x);
}

/* Prints the versions of a matrix (rows, columns) next to each other, and a matrix of one element on the line of its
 * title. */
static inline void print_versions(const char *title, int rows, int columns, int count, const double *const *version)
{
    static const char *const names[] = {"plain C", "tape", "central difference"};
    const int width = columns * ((int)lesson.digits + 5) + 4;
    const bool number = rows * columns == 1;
    print_padded(title, number ? 26 : 0);
    for (int v = 0; v < count; v++) {
        printf("%s", number ? "  " : v ? "  " : "\n  ");
        print_padded(names[v], number || v + 1 == count ? 0 : width);
        if (number)
            print_number(version[v][0]);
    }
    for (int row = 0; row < rows && !number; row++) {
        printf("\n");
        for (int v = 0; v < count; v++) {
            printf("  [");
            for (int column = 0; column < columns; column++)
                print_number(version[v][row * columns + column]);
            const bool last = v + 1 == count;
            print_padded(" ]", last ? 0 : (int)strlen(names[v]) - width + 2);
        }
    }
    printf(number ? "\n" : "\n\n");
}

/* Returns (L(x + h) - L(x - h)) / 2h: the gradient of loss() with respect to *x, without a formula. */
static inline double central_difference(double (*loss)(void), double *x)
{
    const double kept = *x, h = 1e-5;
    *x = kept + h;
    const double above = loss();
    *x = kept - h;
    const double below = loss();
    *x = kept;
    return (above - below) / (2 * h);
}

/* Prints the matrix (rows, columns) that plain C computed, and compares it with the tape's tensor. If x is not NULL, it
 * has the elements of an input, and the third version is the central difference of each. */
static inline void show_gradient(const char *title, int rows, int columns, const double *plain, th_tensor *tape,
                                 double *x, double (*loss)(void))
{
    enum { MAX = 256 };
    double on_tape[MAX], difference[MAX];
    const int count = rows * columns;
    if (count > MAX || th_copy_out(tape, on_tape, (size_t)count * sizeof *on_tape)) {
        lesson.wrong++;
        return;
    }
    for (int i = 0; i < count; i++)
        difference[i] = x ? central_difference(loss, &x[i]) : plain[i];
    print_versions(title, rows, columns, x ? 3 : 2, (const double *const[]){plain, on_tape, difference});
    for (int i = 0; i < count; i++) {
        const double size = fmax(1, fabs(plain[i]));
        lesson.compared++;
        if (fabs(plain[i] - on_tape[i]) <= 1e-12 * size && fabs(plain[i] - difference[i]) <= 1e-7 * size)
            continue;
        printf("  WRONG: row %d, column %d\n", i / columns, i % columns);
        lesson.wrong++;
    }
}

/* Prints a value that plain C computed and the tape's tensor, and compares them. The tensor's name is the title up to
 * " = ". */
static inline void show(const char *title, int rows, int columns, const double *plain, th_tensor *tape)
{
    const char *end = strstr(title, " = ");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(end ? end - title : (ptrdiff_t)strcspn(title, ",")), title);
    th_set_name(tape, name);
    show_gradient(title, rows, columns, plain, tape, NULL, NULL);
}

/* Writes the page, if the options ask for one and it was not written. end_lesson calls it for the last tape. */
static inline th_status write_page(th_context *ctx)
{
    const char *path = lesson.page;
    lesson.page = NULL;
    if (path == NULL || th_tape_write_html(ctx, path, &(th_html_options){.title = lesson.title}))
        return th_error_code(ctx);
    print_written(path);
    return TH_OK;
}

/* Prints how many numbers agreed, writes the page, and frees the context. Returns the status of the program. */
static inline int end_lesson(th_context *ctx)
{
    if (th_error_code(ctx) || write_page(ctx))
        give_up(lesson.program, th_error_message(ctx));
    th_context_free(ctx);
    printf("%d numbers compared, %d wrong\n", lesson.compared, lesson.wrong);
    finish_output(lesson.program);
    char name[64]; /* scripts/run.sh knows the program as class/NAME */
    snprintf(name, sizeof name, "%s%s", getenv("TAPEHEAD_RUN") ? "class/" : "", lesson.program);
    print_next(lesson.path, name, (const char *const[]){"--page", "lesson.html", NULL});
    return lesson.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
