/* Printing. NumPy 2.4 produced the expected texts, with str() under numpy.printoptions(precision=4) or the options of
 * the case. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

typedef struct print_case {
    const char *name;
    th_dtype dtype;
    th_shape shape;
    const double *values;    /* the elements: these, */
    const int64_t *integers; /* or these, */
    double start, step;      /* or start, start + step, ... */
    int64_t odd_at;          /* if not 0: this element is `odd` instead */
    double odd;
    th_print_options options;
    const char *text;
} print_case;

static const print_case cases[] = {
    {.name = "a matrix",
     .dtype = TH_FLOAT32,
     .shape = {2, {2, 3}},
     .values = (const double[]){0.5, -1.25, 3.0, 1.0, 2.0, 3.125},
     .text = "[[ 0.5   -1.25   3.   ]\n"
             " [ 1.     2.     3.125]]"},
    {.name = "thirds",
     .dtype = TH_FLOAT64,
     .shape = {2, {2, 3}},
     .values =
         (const double[]){0.3333333333333333, 0.6666666666666666, 1.0, 1.3333333333333333, 1.6666666666666667, 2.0},
     .text = "[[0.3333 0.6667 1.    ]\n"
             " [1.3333 1.6667 2.    ]]"},
    {.name = "cut with rounding",
     .dtype = TH_FLOAT64,
     .shape = {1, {5}},
     .values = (const double[]){1.00005, 1.12344999, 1.12345001, 1.99999, 3.5},
     .text = "[1.0001 1.1234 1.1235 2.     3.5   ]"},
    {.name = "zeros",
     .dtype = TH_FLOAT32,
     .shape = {2, {2, 2}},
     .values = (const double[]){0.0, 0.0, 0.0, 0.0},
     .text = "[[0. 0.]\n"
             " [0. 0.]]"},
    {.name = "whole numbers",
     .dtype = TH_FLOAT32,
     .shape = {1, {3}},
     .values = (const double[]){1.0, 10.0, -100.0},
     .text = "[   1.   10. -100.]"},
    {.name = "fewest digits of float32",
     .dtype = TH_FLOAT32,
     .shape = {1, {4}},
     .values = (const double[]){0.1, 0.2, 16777.217, 1000.1},
     .options = {.precision = 9},
     .text = "[1.0000000e-01 2.0000000e-01 1.6777217e+04 1.0001000e+03]"},
    {.name = "fewest digits of float64",
     .dtype = TH_FLOAT64,
     .shape = {1, {3}},
     .values = (const double[]){0.1, 0.2, 0.3333333333333333},
     .options = {.precision = 16},
     .text = "[0.1                0.2                0.3333333333333333]"},
    {.name = "far apart",
     .dtype = TH_FLOAT64,
     .shape = {1, {3}},
     .values = (const double[]){0.001, 1.5, 2000.0},
     .text = "[1.0e-03 1.5e+00 2.0e+03]"},
    {.name = "small",
     .dtype = TH_FLOAT32,
     .shape = {1, {2}},
     .values = (const double[]){1e-05, 2e-05},
     .text = "[1.e-05 2.e-05]"},
    {.name = "large float32",
     .dtype = TH_FLOAT32,
     .shape = {1, {2}},
     .values = (const double[]){1e+06, 2e+06},
     .text = "[1.e+06 2.e+06]"},
    {.name = "large float64",
     .dtype = TH_FLOAT64,
     .shape = {1, {3}},
     .values = (const double[]){1000000.0, 2000000.0, 99999999.0},
     .text = "[ 1000000.  2000000. 99999999.]"},
    {.name = "exact digits behind the fewest",
     .dtype = TH_FLOAT32,
     .shape = {1, {3}},
     .values = (const double[]){0.1, 12345.678, 1e-09},
     .options = {.precision = 8},
     .text = "[1.0000000e-01 1.2345678e+04 9.9999997e-10]"},
    {.name = "exponents of three digits",
     .dtype = TH_FLOAT64,
     .shape = {1, {3}},
     .values = (const double[]){1e-100, 1.0, 1e+200},
     .text = "[1.e-100 1.e+000 1.e+200]"},
    {.name = "smallest and largest",
     .dtype = TH_FLOAT64,
     .shape = {1, {2}},
     .values = (const double[]){5e-324, 1.7976931348623157e+308},
     .options = {.precision = 17},
     .text = "[4.9406564584124654e-324 1.7976931348623157e+308]"},
    {.name = "not finite",
     .dtype = TH_FLOAT32,
     .shape = {2, {2, 2}},
     .values = (const double[]){NAN, INFINITY, -INFINITY, 0.5},
     .text = "[[ nan  inf]\n"
             " [-inf  0.5]]"},
    {.name = "nothing finite",
     .dtype = TH_FLOAT64,
     .shape = {1, {2}},
     .values = (const double[]){NAN, INFINITY},
     .text = "[nan inf]"},
    {.name = "only minus infinity",
     .dtype = TH_FLOAT64,
     .shape = {1, {2}},
     .values = (const double[]){-INFINITY, -INFINITY},
     .text = "[-inf -inf]"},
    {.name = "not finite among large ones",
     .dtype = TH_FLOAT32,
     .shape = {1, {3}},
     .values = (const double[]){NAN, 1e+10, -INFINITY},
     .text = "[   nan 1.e+10   -inf]"},
    {.name = "negative zero",
     .dtype = TH_FLOAT64,
     .shape = {1, {2}},
     .values = (const double[]){-0.0, 0.0},
     .text = "[-0.  0.]"},
    {.name = "integers",
     .dtype = TH_INT32,
     .shape = {2, {2, 2}},
     .values = (const double[]){1, -20, 300, 4},
     .text = "[[  1 -20]\n"
             " [300   4]]"},
    {.name = "extreme integers",
     .dtype = TH_INT64,
     .shape = {1, {3}},
     .integers = (const int64_t[]){INT64_MIN, INT64_MAX, 0},
     .text = "[-9223372036854775808  9223372036854775807                    0]"},
    {.name = "truth",
     .dtype = TH_BOOL,
     .shape = {2, {2, 2}},
     .values = (const double[]){1, 0, 1, 1},
     .text = "[[ True False]\n"
             " [ True  True]]"},
    {.name = "true only",
     .dtype = TH_BOOL,
     .shape = {1, {2}},
     .values = (const double[]){1, 1},
     .text = "[ True  True]"},
    {.name = "three dimensions",
     .dtype = TH_INT64,
     .shape = {3, {2, 2, 2}},
     .start = 0,
     .step = 1,
     .text = "[[[0 1]\n"
             "  [2 3]]\n"
             "\n"
             " [[4 5]\n"
             "  [6 7]]]"},
    {.name = "four dimensions",
     .dtype = TH_INT32,
     .shape = {4, {2, 2, 2, 2}},
     .start = 0,
     .step = 1,
     .text = "[[[[ 0  1]\n"
             "   [ 2  3]]\n"
             "\n"
             "  [[ 4  5]\n"
             "   [ 6  7]]]\n"
             "\n"
             "\n"
             " [[[ 8  9]\n"
             "   [10 11]]\n"
             "\n"
             "  [[12 13]\n"
             "   [14 15]]]]"},
    {.name = "one in every direction",
     .dtype = TH_FLOAT32,
     .shape = {3, {1, 1, 1}},
     .values = (const double[]){1.0},
     .text = "[[[1.]]]"},
    {.name = "wrapped lines",
     .dtype = TH_FLOAT64,
     .shape = {1, {30}},
     .start = 0,
     .step = 0.125,
     .text = "[0.    0.125 0.25  0.375 0.5   0.625 0.75  0.875 1.    1.125 1.25  1.375\n"
             " 1.5   1.625 1.75  1.875 2.    2.125 2.25  2.375 2.5   2.625 2.75  2.875\n"
             " 3.    3.125 3.25  3.375 3.5   3.625]"},
    {.name = "wrapped lines of a matrix",
     .dtype = TH_INT64,
     .shape = {2, {2, 22}},
     .start = -3,
     .step = 7,
     .text = "[[ -3   4  11  18  25  32  39  46  53  60  67  74  81  88  95 102 109 116\n"
             "  123 130 137 144]\n"
             " [151 158 165 172 179 186 193 200 207 214 221 228 235 242 249 256 263 270\n"
             "  277 284 291 298]]"},
    {.name = "narrow lines",
     .dtype = TH_FLOAT32,
     .shape = {2, {3, 4}},
     .start = 0,
     .step = 0.5,
     .options = {.line_width = 16},
     .text = "[[0.  0.5 1.\n"
             "  1.5]\n"
             " [2.  2.5 3.\n"
             "  3.5]\n"
             " [4.  4.5 5.\n"
             "  5.5]]"},
    {.name = "narrower than a number",
     .dtype = TH_FLOAT64,
     .shape = {1, {2}},
     .values = (const double[]){1234.5, 2.25},
     .options = {.line_width = 4},
     .text = "[1234.5\n"
             "    2.25]"},
    {.name = "summarized vector",
     .dtype = TH_INT64,
     .shape = {1, {2000}},
     .start = 0,
     .step = 1,
     .text = "[   0    1    2 ... 1997 1998 1999]"},
    {.name = "summarized matrix",
     .dtype = TH_FLOAT64,
     .shape = {2, {40, 60}},
     .start = 0,
     .step = 0.25,
     .text = "[[0.0000e+00 2.5000e-01 5.0000e-01 ... 1.4250e+01 1.4500e+01 1.4750e+01]\n"
             " [1.5000e+01 1.5250e+01 1.5500e+01 ... 2.9250e+01 2.9500e+01 2.9750e+01]\n"
             " [3.0000e+01 3.0250e+01 3.0500e+01 ... 4.4250e+01 4.4500e+01 4.4750e+01]\n"
             " ...\n"
             " [5.5500e+02 5.5525e+02 5.5550e+02 ... 5.6925e+02 5.6950e+02 5.6975e+02]\n"
             " [5.7000e+02 5.7025e+02 5.7050e+02 ... 5.8425e+02 5.8450e+02 5.8475e+02]\n"
             " [5.8500e+02 5.8525e+02 5.8550e+02 ... 5.9925e+02 5.9950e+02 5.9975e+02]]"},
    {.name = "summarized along one axis",
     .dtype = TH_INT32,
     .shape = {2, {6, 300}},
     .start = 0,
     .step = 1,
     .text = "[[   0    1    2 ...  297  298  299]\n"
             " [ 300  301  302 ...  597  598  599]\n"
             " [ 600  601  602 ...  897  898  899]\n"
             " [ 900  901  902 ... 1197 1198 1199]\n"
             " [1200 1201 1202 ... 1497 1498 1499]\n"
             " [1500 1501 1502 ... 1797 1798 1799]]"},
    {.name = "summarized in three dimensions",
     .dtype = TH_INT64,
     .shape = {3, {10, 9, 12}},
     .start = 0,
     .step = 1,
     .text = "[[[   0    1    2 ...    9   10   11]\n"
             "  [  12   13   14 ...   21   22   23]\n"
             "  [  24   25   26 ...   33   34   35]\n"
             "  ...\n"
             "  [  72   73   74 ...   81   82   83]\n"
             "  [  84   85   86 ...   93   94   95]\n"
             "  [  96   97   98 ...  105  106  107]]\n"
             "\n"
             " [[ 108  109  110 ...  117  118  119]\n"
             "  [ 120  121  122 ...  129  130  131]\n"
             "  [ 132  133  134 ...  141  142  143]\n"
             "  ...\n"
             "  [ 180  181  182 ...  189  190  191]\n"
             "  [ 192  193  194 ...  201  202  203]\n"
             "  [ 204  205  206 ...  213  214  215]]\n"
             "\n"
             " [[ 216  217  218 ...  225  226  227]\n"
             "  [ 228  229  230 ...  237  238  239]\n"
             "  [ 240  241  242 ...  249  250  251]\n"
             "  ...\n"
             "  [ 288  289  290 ...  297  298  299]\n"
             "  [ 300  301  302 ...  309  310  311]\n"
             "  [ 312  313  314 ...  321  322  323]]\n"
             "\n"
             " ...\n"
             "\n"
             " [[ 756  757  758 ...  765  766  767]\n"
             "  [ 768  769  770 ...  777  778  779]\n"
             "  [ 780  781  782 ...  789  790  791]\n"
             "  ...\n"
             "  [ 828  829  830 ...  837  838  839]\n"
             "  [ 840  841  842 ...  849  850  851]\n"
             "  [ 852  853  854 ...  861  862  863]]\n"
             "\n"
             " [[ 864  865  866 ...  873  874  875]\n"
             "  [ 876  877  878 ...  885  886  887]\n"
             "  [ 888  889  890 ...  897  898  899]\n"
             "  ...\n"
             "  [ 936  937  938 ...  945  946  947]\n"
             "  [ 948  949  950 ...  957  958  959]\n"
             "  [ 960  961  962 ...  969  970  971]]\n"
             "\n"
             " [[ 972  973  974 ...  981  982  983]\n"
             "  [ 984  985  986 ...  993  994  995]\n"
             "  [ 996  997  998 ... 1005 1006 1007]\n"
             "  ...\n"
             "  [1044 1045 1046 ... 1053 1054 1055]\n"
             "  [1056 1057 1058 ... 1065 1066 1067]\n"
             "  [1068 1069 1070 ... 1077 1078 1079]]]"},
    {.name = "at the threshold",
     .dtype = TH_INT32,
     .shape = {1, {20}},
     .start = 0,
     .step = 1,
     .options = {.threshold = 20},
     .text = "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19]"},
    {.name = "above the threshold",
     .dtype = TH_INT32,
     .shape = {1, {21}},
     .start = 0,
     .step = 1,
     .options = {.threshold = 20},
     .text = "[ 0  1  2 ... 18 19 20]"},
    {.name = "one item at each edge",
     .dtype = TH_INT32,
     .shape = {2, {10, 10}},
     .start = 0,
     .step = 1,
     .options = {.threshold = 50, .edge_items = 1},
     .text = "[[ 0 ...  9]\n"
             " ...\n"
             " [90 ... 99]]"},
    {.name = "hidden numbers set no width",
     .dtype = TH_FLOAT64,
     .shape = {1, {50}},
     .start = 1,
     .step = 0,
     .odd_at = 25,
     .odd = 1e30,
     .options = {.threshold = 10, .edge_items = 2},
     .text = "[1. 1. ... 1. 1.]"},
    {.name = "two digits",
     .dtype = TH_FLOAT64,
     .shape = {1, {4}},
     .values = (const double[]){0.006, 0.0149, 1.005, -3.14159},
     .options = {.precision = 2},
     .text = "[ 0.01  0.01  1.   -3.14]"},
    {.name = "no elements", .dtype = TH_FLOAT32, .shape = {1, {0}}, .text = "[]"},
    {.name = "no elements in two dimensions", .dtype = TH_FLOAT64, .shape = {2, {3, 0}}, .text = "[]"},
    {.name = "a number", .dtype = TH_FLOAT32, .values = (const double[]){0.1}, .text = "0.1"},
    {.name = "a double",
     .dtype = TH_FLOAT64,
     .values = (const double[]){0.3333333333333333},
     .text = "0.3333333333333333"},
    {.name = "a whole number", .dtype = TH_FLOAT64, .values = (const double[]){2.0}, .text = "2.0"},
    {.name = "a million", .dtype = TH_FLOAT32, .values = (const double[]){1e+06}, .text = "1e+06"},
    {.name = "a large double",
     .dtype = TH_FLOAT64,
     .values = (const double[]){1000000000000000.0},
     .text = "1000000000000000.0"},
    {.name = "a very large double", .dtype = TH_FLOAT64, .values = (const double[]){1.5e+16}, .text = "1.5e+16"},
    {.name = "a small number", .dtype = TH_FLOAT64, .values = (const double[]){1e-05}, .text = "1e-05"},
    {.name = "a number cut",
     .dtype = TH_FLOAT64,
     .values = (const double[]){0.3333333333333333},
     .options = {.precision = 3},
     .text = "0.333"},
    {.name = "a nan", .dtype = TH_FLOAT64, .values = (const double[]){NAN}, .text = "nan"},
    {.name = "an integer", .dtype = TH_INT32, .values = (const double[]){-7}, .text = "-7"},
    {.name = "a truth", .dtype = TH_BOOL, .values = (const double[]){1}, .text = "True"},
};

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static th_tensor *tensor_of(const print_case *c)
{
    th_tensor *t = th_empty(ctx, c->dtype, c->shape);
    ck_assert_ptr_nonnull(t);
    const int64_t numel = th_numel(t);
    th_tensor *flat = c->shape.ndim == 1 ? t : th_empty(ctx, c->dtype, TH_SHAPE(numel));
    for (int64_t i = 0; i < numel; i++)
        if (c->integers)
            ((int64_t *)th_data(flat))[i] = c->integers[i];
        else
            ck_assert_int_eq(th_set(flat, TH_INDEX(i),
                                    c->values                     ? c->values[i]
                                    : c->odd_at && i == c->odd_at ? c->odd
                                                                  : c->start + (double)i * c->step),
                             TH_OK);
    if (flat != t && numel > 0)
        memcpy(th_data(t), th_data_const(flat), (size_t)numel * th_dtype_size(c->dtype));
    return t;
}

/* Returns the text, which the caller frees. */
static char *text_of(th_tensor *t, const th_print_options *options)
{
    const int64_t length = th_print_text(t, NULL, 0, options);
    ck_assert_msg(length >= 0, "%s", th_error_message(ctx));
    char *text = malloc((size_t)length + 1);
    ck_assert_int_eq(th_print_text(t, text, (size_t)length + 1, options), length);
    ck_assert_uint_eq(strlen(text), (size_t)length);
    return text;
}

START_TEST(test_as_numpy)
{
    const print_case *c = &cases[_i];
    char *text = text_of(tensor_of(c), &c->options);
    ck_assert_msg(strcmp(text, c->text) == 0, "%s:\n%s\ninstead of\n%s", c->name, text, c->text);
    free(text);
}
END_TEST

START_TEST(test_to_a_file)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *written = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&written, &size);
        th_tensor *t = tensor_of(&cases[i]);
        ck_assert_int_eq(th_print(t, file, &cases[i].options), TH_OK);
        fclose(file);
        ck_assert_uint_eq(size, strlen(cases[i].text) + 1);
        ck_assert(memcmp(written, cases[i].text, size - 1) == 0 && written[size - 1] == '\n');
        free(written);
        th_tensor_free(t);
    }
}
END_TEST

START_TEST(test_into_too_little_memory)
{
    th_tensor *t = th_full(ctx, TH_FLOAT32, TH_SHAPE(2, 2), 1.5);
    const char *const whole = "[[1.5 1.5]\n [1.5 1.5]]";
    for (size_t size = 0; size < 30; size++) {
        char text[32];
        memset(text, 'x', sizeof text);
        ck_assert_int_eq(th_print_text(t, text, size, NULL), (int64_t)strlen(whole));
        const size_t fits = size == 0 ? 0 : size - 1 < strlen(whole) ? size - 1 : strlen(whole);
        ck_assert(memcmp(text, whole, fits) == 0);
        ck_assert(size == 0 || text[fits] == 0);
        ck_assert(text[size > fits + 1 ? fits + 1 : size] == 'x');
    }
}
END_TEST

START_TEST(test_views)
{
    th_tensor *t = th_arange(ctx, TH_FLOAT64, 0, 6, 1);
    char *text = text_of(th_transpose(th_reshape(t, TH_SHAPE(2, 3)), TH_AXES(1, 0)), NULL);
    ck_assert_str_eq(text, "[[0. 3.]\n [1. 4.]\n [2. 5.]]");
    free(text);
    text = text_of(th_expand(th_slice(t, 0, 1, 6, 3), TH_SHAPE(2, 2)), NULL);
    ck_assert_str_eq(text, "[[1. 4.]\n [1. 4.]]");
    free(text);
}
END_TEST

START_TEST(test_errors)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(200, 200));
    expect_status(th_print(t, NULL, NULL), TH_ERROR_ARGUMENT, "print: the file is NULL; at test_print.c");
    expect_status(th_print(NULL, stdout, NULL), TH_ERROR_ARGUMENT, "print: t is NULL");
    expect_status(th_print(t, stdout, &(th_print_options){.precision = 25}), TH_ERROR_ARGUMENT, "precision");
    expect_status(th_print(t, stdout, &(th_print_options){.line_width = -1}), TH_ERROR_ARGUMENT, "negative");
    ck_assert_int_eq(th_print_text(NULL, NULL, 0, NULL), -1);
    th_error_clear(ctx);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        expect_status(th_print(t, full, &(th_print_options){.threshold = 100000}), TH_ERROR_FILE,
                      "could not be written");
        fclose(full);
    }
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    ck_assert_int_eq(th_print_text(th_zeros(shapes, TH_FLOAT32, TH_SHAPE(2)), NULL, 0, NULL), -1);
    ck_assert_int_eq(th_error_code(shapes), TH_ERROR_STATE);
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("print", setup, close_context);
    tcase_add_loop_test(tests, test_as_numpy, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, test_to_a_file);
    tcase_add_test(tests, test_into_too_little_memory);
    tcase_add_test(tests, test_views);
    tcase_add_test(tests, test_errors);
    return run_suites();
}
