/* The interpreter of the exercises' C (teaching/exercises/interpreter): numbers as the compiler computes them, constructs
 * outside its subset, memory errors, loops without an end, damaged sources. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../teaching/exercises/interpreter/interpreter.h"
#include "../../teaching/exercises/marker/marker.h"
#include "suite.h"

enum { LENGTH = 4000, PASSES = 100000 };

/* -- the functions of the marker and of exercise.h that end a check -- */

static jmp_buf end;
static bool compiled; /* a compiled function runs: nothing may end it */
static char sentence[LENGTH], cause[LENGTH];

void end_guarded(mark_state s, const char *why, const char *format, ...)
{
    va_list arguments;
    (void)s;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    snprintf(cause, sizeof cause, "%s", why);
    if (compiled)
        abort();
    longjmp(end, 1);
}

/* -- the compiled numbers -- */

static char printed[LENGTH];

static __attribute__((format(printf, 1, 2))) void print_here(const char *format, ...)
{
    const size_t length = strlen(printed);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(printed + length, sizeof printed - length, format, arguments);
    va_end(arguments);
}

#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#endif
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wfloat-equal"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wdiv-by-zero"
#pragma GCC diagnostic ignored "-Wshadow"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wlogical-op-parentheses"
#pragma GCC diagnostic ignored "-Wconstant-logical-operand"
#else
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wbool-compare"
#endif
#define printf print_here
#include "../fixtures/interpreted_numbers.c"
#undef printf
#pragma GCC diagnostic pop

/* -- a call -- */

static double x_memory[6], y_memory[6];
static int64_t n_memory[3] = {3, -2, 7};
static th_array array[4];
static const interpreter_extent extent[4] = {{0, 6, 0, 6}, {0, 3, 0, 3}, {0, 6, 0, 8}, {0, 0, 0, 0}};
static double y_margin[8];

static th_call new_call(void)
{
    for (int i = 0; i < 6; i++) {
        x_memory[i] = 0.1 * i - 0.2;
        y_margin[i] = y_memory[i] = 0;
    }
    array[0] =
        (th_array){.given = true, .data = x_memory, .dtype = TH_FLOAT64, .ndim = 2, .size = {2, 3}, .stride = {1, 2}};
    array[1] = (th_array){.given = true, .data = n_memory, .dtype = TH_INT64, .ndim = 1, .size = {3}, .stride = {1}};
    array[2] =
        (th_array){.given = true, .data = y_margin, .dtype = TH_FLOAT64, .ndim = 2, .size = {2, 3}, .stride = {3, 1}};
    array[3] = (th_array){.given = false};
    return (th_call){.n_inputs = 2, .n_outputs = 1, .input = array, .output = array + 2, .input_gradient = array + 3};
}

/* Interprets the function of a source. Returns whether it came to its end; otherwise there is a sentence. */
static bool interpret(const char *source)
{
    interpreter *volatile in = interpreter_new("lines", source);
    ck_assert_ptr_nonnull(in);
    const th_call call = new_call();
    volatile bool ended = false;
    snprintf(sentence, sizeof sentence, "%s", interpreter_error(in));
    cause[0] = '\0';
    if (sentence[0] == '\0' && setjmp(end) == 0) {
        interpreter_begin(in, PASSES);
        ck_assert(interpreter_defines(in, false));
        interpreter_run(in, false, &(interpreter_call){&call, array, extent});
        ended = true;
        snprintf(sentence, sizeof sentence, "%s", interpreter_outside(in));
    }
    snprintf(printed, sizeof printed, "%s", interpreter_printed(in));
    interpreter_free(in);
    return ended;
}

/* Interprets lines of a function. */
static bool run_lines(const char *lines)
{
    static char source[2 * LENGTH];
    snprintf(
        source, sizeof source,
        "static void run(const th_call *c)\n{\n%s\n}\nconst th_op exercise = {.name = \"test\", .forward = run};\n",
        lines);
    return interpret(source);
}

/* -- tests -- */

static char *numbers_source(const char *function)
{
    FILE *file = fopen(FIXTURES "/interpreted_numbers.c", "r");
    ck_assert_ptr_nonnull(file);
    char *source = calloc(1, 1 << 16);
    const size_t length = fread(source, 1, (1 << 16) - 200, file);
    fclose(file);
    snprintf(source + length, 200, "const th_op exercise = {.name = \"numbers\", .forward = %s};\n", function);
    return source;
}

START_TEST(numbers_are_those_of_the_compiler)
{
    static const struct {
        const char *name;
        void (*run)(const th_call *c);
    } all[] = {{"floats", floats},
               {"integers", integers},
               {"arrays", arrays},
               {"elements", elements},
               {"functions", functions}};
    char expected[LENGTH];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const th_call call = new_call();
        printed[0] = '\0';
        compiled = true;
        all[i].run(&call);
        compiled = false;
        memcpy(expected, printed, sizeof expected);
        char *source = numbers_source(all[i].name);
        ck_assert_msg(interpret(source), "%s: %s", all[i].name, sentence);
        ck_assert_str_eq(printed, expected);
        ck_assert_str_eq(sentence, "");
        free(source);
    }
}
END_TEST

START_TEST(constructs_outside_the_subset_are_sentences)
{
    static const char *const all[][2] = {
        {"int i = 0;\nswitch (i) { default: ; }", "line 4: switch is not in the C of the exercises: use if and else"},
        {"goto end;", "goto is not in the C of the exercises: use break, continue or return"},
        {"unsigned n = 0;", "unsigned is not in the C of the exercises: use int64_t"},
        {"char s = 0;", "use int for whole numbers"},
        {"long double s = 0;", "long double is not in the C of the exercises: use double"},
        {"struct pair { int a; } p;", "use an array or a variable for each member"},
        {"static double kept;", "declare the variable without it"},
        {"int a = 1 << 3;", "<< is not in the C of the exercises: multiply or divide by a power of 2"},
        {"int a = 1 | 2;", "use && and ||, or arithmetic"},
        {"int a = ~1;", "~ is not in the C of the exercises"},
        {"double **p;", "a pointer to a pointer is not in the C of the exercises: use an array and an index"},
        {"double *a[3];", "use one array, and compute the index"},
        {"double a[3] = {1, 2, 3, 4};", "more values than the array has elements"},
        {"int64_t n = 3; double a[n] = {0};", "an array whose size is a variable cannot have values here"},
        {"th_array a;", "a variable of the type th_array is not in the C of the exercises"},
        {"double *p = malloc(8);", "malloc is not a function of the exercises"},
        {"const double *p = (double[]){1};",
         "an array without a name is not in the C of the exercises: declare an array"},
        {"const th_array *x = &c->input[0]; double s = x[0] * 2;",
         "* needs a number, but x[0] is a th_array. An array is not a number"},
        {"const th_array *x = &c->input[0]; x[0] = 2;", "x[0] cannot be assigned. An array is not a number"},
        {"const th_array *x = &c->input[0]; double s = x[0][1];",
         "[ ] needs a pointer before it. An array is not a number"},
        {"const th_array *x = &c->input[0]; double s = 2 * x;", "element i of a is at(a, i), not a[i]"},
        {"const th_array *x = &c->input[0]; double s = x->data[0];", "data has no type: assign it to a pointer first"},
        {"const th_array *x = c->input[0];",
         "a pointer is needed as the value of this variable, but c->input[0] is a th_array"},
        {"const th_array *x = &c->input[0]; double s = at(x);", "at has an array and its indices as arguments"},
        {"integer_at(&c->input[1], 0) = 1;", "integer_at(&c->input[1], 0) can only be read"},
        {"const int n = 1; n = 2;", "n is const: it cannot be assigned"},
        {"const double a[1] = {1}; a[0] = 2;", "a[0] is const"},
        {"c->n_inputs = 3;", "the members of th_array and th_call can only be read"},
        {"double s = c->input->stride;", "needs a number"},
        {"double s = c->ctx;", "th_call has no member ctx here"},
        {"double s = missing;", "line 3: missing is not declared"},
        {"double s = 1\ndouble t = 2;", "line 3: ; is missing after this declaration, before double"},
        {"double s = sqrt(1, 2);", "sqrt has 1 argument, not 2"},
        {"int s = 0; int s = 1;", "s is declared twice in this block"},
        {"double s = 5.0 % 2;", "% needs integers: use fmod"},
        {"break;", "break is not in a loop"},
        {"return 1;", "this function returns nothing: write return;"},
        {"for (int i = 0; i < 3; i++) {", "{ has no closing bracket"},
        {"/* never", "this comment does not end"},
        {"printf(\"%d\\n\", 1.5);", "%d of printf needs an integer: use %g"},
        {"printf(\"%g %g\\n\", 1.5);", "the text of printf asks for 2 values, but 1 follow"},
        {"const th_array *x = &c->input[0]; if (x) return;", "a condition needs a number, but x is a pointer"},
        {"double s = 1e;", "1e is not a number"},
        {"int n = 10u;", "10u is not an integer of the exercises"},
        {"double s = 'a';", "a text here is not in the C of the exercises"},
        {"else return;", "this else belongs to no if"},
        {"int n = sizeof(th_array);", "count its elements"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ck_assert_msg(!run_lines(all[i][0]), "accepted: %s", all[i][0]);
        ck_assert_msg(strstr(sentence, all[i][1]) && strstr(sentence, "lines, line "), "%s:\n  says %s\n  not  %s",
                      all[i][0], sentence, all[i][1]);
    }
    ck_assert(!interpret("#if 1\n#endif\n"));
    ck_assert_ptr_nonnull(strstr(sentence, "#if is not in the C of the exercises"));
    ck_assert(!interpret("#define F(x) x\n"));
    ck_assert_ptr_nonnull(strstr(sentence, "write a function"));
}
END_TEST

START_TEST(errors_of_memory_name_the_line)
{
    static const char *const all[][3] = {
        {"double s;\ndouble t = s + 1;", "line 4: s is read before it has a value", "begin a sum with = 0"},
        {"double a[2];\na[1] += 1;", "line 4: a[1] is read before it has a value", ""},
        {"for (int i = 0; i < 2; i++) { double s; if (i == 0) s = 1; s += 1; }", "s is read before it has a value", ""},
        {"double a[2] = {0};\nfor (int i = 0; i <= 2; i++) a[i] = 1;",
         "line 4: a[i] writes element 2 of a, whose elements are 0 to 1", "an index of an array that you declared"},
        {"double a[2][3]; a[1][3] = 1;", "writes element 6 of a", ""},
        {"double a[2][3]; a[2][0] = 1;", "the index of a[2] is 2, but a has the rows 0 to 1", ""},
        {"double a[2] = {0}, *p = a; p--; double s = *p;", "*p reads element -1 of a", ""},
        {"double *p; *p = 1;", "p is read before it has a value", ""},
        {"double *p = c->output[0].data; p[100] = 1;", "p[100] writes element 100 of the array",
         "memory that belongs to no array"},
        {"double *p = c->input_gradient[0].data; p[0] = 1;", "an array that is not given", ""},
        {"int64_t *p = c->output[0].data;", "these elements are double, not int64_t", "a pointer must have the type"},
        {"const th_array *x = &c->input[0]; double s = at(x, 0, 3);",
         "at(x, 0, 3): index 1 is 3, but the array is (2, 3)", ""},
        {"const th_array *x = &c->input[ 2 ]; double s = at(x, 0);", "x reads element 2 of c->input", ""},
        {"int n = 0; int m = 1 / n;", "an integer is divided by 0", "divided an integer by 0"},
        {"int64_t n = 0; int64_t m = 5 % n;", "an integer is divided by 0", ""},
        {"int64_t n = 0; double a[n];", "the array a would have 0 elements", ""},
        {"double a[1000000];", "the memory for variables does not suffice", ""},
        {"for (;;)\n;", "did not finish within 100000 passes", "a loop never ends"},
        {"while (1) { int n = 1; n++; }", "did not finish", "a loop never ends"},
        {"do { } while (true);", "did not finish", "a loop never ends"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ck_assert_msg(!run_lines(all[i][0]), "accepted: %s", all[i][0]);
        ck_assert_msg(strstr(sentence, all[i][1]), "%s:\n  says %s\n  not  %s", all[i][0], sentence, all[i][1]);
        ck_assert_msg(strstr(cause, all[i][2]), "%s:\n  says %s\n  not  %s", all[i][0], cause, all[i][2]);
    }
    ck_assert(!interpret(
        "static int deep(int n)\n{\nreturn deep(n + 1);\n}\nstatic void run(const th_call *c)\n{\ndeep(0);\n}\n"
        "const th_op exercise = {.forward = run};"));
    ck_assert_ptr_nonnull(strstr(cause, "a function calls itself without end"));
    ck_assert(!interpret(
        "static int none(int n)\n{\nif (n) return 1;\n}\nstatic void run(const th_call *c)\n{\nint m = none(0);\n}\n"
        "const th_op exercise = {.forward = run};"));
    ck_assert_ptr_nonnull(strstr(cause, "every path through a function must end with return"));
}
END_TEST

/* A compiled program does not stop there, so the numbers are compared first. */
START_TEST(memory_near_an_array_is_noted)
{
    ck_assert(run_lines("double *p = c->output[0].data;\np[7] = 1;\np[6] = 2;"));
    ck_assert_ptr_nonnull(
        strstr(sentence, "lines, line 4: p[7] writes element 7 of the array, whose elements are 0 to 5"));
    ck_assert(y_margin[7] == 1 && y_margin[6] == 2);
    ck_assert(run_lines("const th_array *x = &c->input[0]; int64_t s = x->size[2];"));
    ck_assert_ptr_nonnull(strstr(sentence, "x->size[2] reads element 2 of size"));
}
END_TEST

/* Every beginning of a source, and every source that lacks a token, is accepted or has a sentence. */
START_TEST(damaged_sources_are_sentences)
{
    char *source = numbers_source("arrays");
    const size_t length = strlen(source);
    for (size_t n = 0; n < length; n += 41) {
        const char kept = source[n];
        source[n] = '\0';
        interpreter *in = interpreter_new("lines", source);
        ck_assert_ptr_nonnull(in);
        interpreter_free(in);
        for (const char *c = "(){}[];,*=\"'/#\\?:"; *c; c++) {
            source[n] = *c;
            in = interpreter_new("lines", source);
            ck_assert_ptr_nonnull(in);
            interpreter_free(in);
        }
        source[n] = kept;
    }
    free(source);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("interpreter", NULL, NULL);
    tcase_add_test(tests, numbers_are_those_of_the_compiler);
    tcase_add_test(tests, constructs_outside_the_subset_are_sentences);
    tcase_add_test(tests, errors_of_memory_name_the_line);
    tcase_add_test(tests, memory_near_an_array_is_noted);
    tcase_add_test(tests, damaged_sources_are_sentences);
    return run_suites();
}
