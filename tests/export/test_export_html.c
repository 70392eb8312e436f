/* Pages of a tape (tapehead/export.h). The JSON has the library's values. The page is well formed whatever the names
 * are. A page that cannot be written leaves the old file. */
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "export/tape_json.h"
#include "folder.h"
#include "memory.h"
#include "tapehead/models.h"
#include "tensor/convert.h"
#include "tensor/utf8.h"

#include "leaf_and_loss.h"

static test_memory memory;

static void setup(void)
{
    make_folder();
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .allocator = allocator_of(&memory)});
    th_keep_values(ctx, true);
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

/* -- the JSON -- */

static json_t *parse(const char *text, size_t size)
{
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    ck_assert_msg(root != NULL, "%s at byte %d", error.text, error.position);
    return root;
}

/* Returns the data of the current tape. */
static json_t *data_of(const th_html_options *options)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_msg(th_tape_write_json(ctx, file, options) == TH_OK, "%s", th_error_message(ctx));
    fclose(file);
    json_t *root = parse(text, size);
    free(text);
    return root;
}

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    ck_assert_ptr_nonnull(at);
    return (int)(at - digits);
}

/* Decodes an array into at most `most` numbers. Returns their count. */
static int numbers_of(const json_t *array, double *number, int most)
{
    const char *text = json_string_value(json_object_get(array, "data"));
    const bool single = strcmp(json_string_value(json_object_get(array, "type")), "float32") == 0;
    unsigned char byte[8192];
    int bytes = 0, count = 0;
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(strlen(text) % 4, 0);
    for (; *text; text += 4) {
        int group = 0, padding = 0;
        for (int i = 0; i < 4; i++) {
            padding += text[i] == '=';
            group = group << 6 | (text[i] == '=' ? 0 : digit(text[i]));
        }
        for (int i = 0; i < 3 - padding; i++)
            byte[bytes++] = (unsigned char)(group >> (16 - 8 * i));
        ck_assert_int_lt(bytes, (int)sizeof byte - 3);
    }
    if (strcmp(json_string_value(json_object_get(array, "type")), "bits") == 0) {
        int64_t elements = 1;
        size_t d;
        const json_t *of_axis;
        json_array_foreach (json_object_get(array, "shape"), d, of_axis)
            elements *= json_integer_value(of_axis);
        ck_assert_int_eq(bytes, (elements + 7) / 8);
        for (; count < elements; count++)
            number[count] = byte[count / 8] >> count % 8 & 1;
        return count;
    }
    const int element = single ? 4 : 8;
    ck_assert_int_eq(bytes % element, 0);
    for (; count < bytes / element; count++) {
        ck_assert_int_lt(count, most);
        number[count] = th_number_read(single ? TH_FLOAT32 : TH_FLOAT64, byte + count * element);
    }
    return count;
}

/* Returns the tensor of this name. */
static const json_t *named(const json_t *root, const char *name)
{
    size_t i;
    const json_t *tensor;
    json_array_foreach (json_object_get(root, "tensors"), i, tensor)
        if (strcmp(json_string_value(json_object_get(tensor, "name")), name) == 0)
            return tensor;
    ck_abort_msg("no tensor is called %s", name);
    return NULL;
}

/* Checks that an array of the page has the elements of a tensor, bit for bit. */
static void same_elements(const json_t *array, th_tensor *t)
{
    double shown[512], own[512];
    ck_assert_ptr_nonnull(t);
    const int count = numbers_of(array, shown, 512);
    ck_assert_int_eq(count, th_numel(t));
    th_tensor *wide = th_contiguous(th_cast(t, TH_FLOAT64));
    ck_assert_int_eq(th_copy_out(wide, own, sizeof own[0] * (size_t)count), TH_OK);
    ck_assert_mem_eq(shown, own, sizeof own[0] * (size_t)count);
}

static int64_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "%s is not an integer", key);
    return json_integer_value(value);
}

static th_tensor *leaf(const char *name, th_shape shape)
{
    th_tensor *t = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, shape, -1, 1), true);
    return th_set_name(t, name);
}

START_TEST(values)
{
    th_tensor *x = leaf("x", TH_SHAPE(3, 2)), *w = leaf("w", TH_SHAPE(4, 2)), *b = leaf("b", TH_SHAPE(4));
    th_tensor *y = th_set_name(th_softmax(th_dense(x, w, &(th_dense_options){.bias = b}), -1), "y"),
              *loss = total(th_mul(y, y));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    json_t *root = data_of(NULL);
    ck_assert_int_eq(integer(root, "version"), 2);
    ck_assert(json_is_true(json_object_get(root, "backward")));
    same_elements(json_object_get(named(root, "x"), "value"), x);
    same_elements(json_object_get(named(root, "y"), "value"), y);
    same_elements(json_object_get(named(root, "x"), "gradient"), th_gradient(x));
    same_elements(json_object_get(named(root, "b"), "gradient"), th_gradient(b));
    double shown[64], exact[64];
    const int count = numbers_of(json_object_get(named(root, "w"), "difference"), shown, 64);
    ck_assert_int_eq(count, 8);
    numbers_of(json_object_get(named(root, "w"), "gradient"), exact, 64);
    for (int i = 0; i < count; i++)
        ck_assert_double_eq_tol(shown[i], exact[i], 1e-6);
    const json_t *nodes = json_object_get(root, "nodes"), *dense = json_array_get(nodes, 0);
    ck_assert_uint_eq(json_array_size(nodes), 4);
    ck_assert_str_eq(json_string_value(json_object_get(dense, "op")), "dense");
    ck_assert_str_eq(json_string_value(json_object_get(dense, "fused")), "add(matmul(x0, transpose(x1)), x2)");
    ck_assert_uint_eq(json_array_size(json_object_get(dense, "contributions")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(nodes, 1), "attributes")), "axis=1");
    ck_assert_int_eq(integer(dense, "order"), 3);
    ck_assert_int_eq(integer(root, "loss"), 6);
    json_decref(root);
}
END_TEST

/* A contribution that differs from the whole gradient is on the page. */
START_TEST(contributions)
{
    th_tensor *x = leaf("x", TH_SHAPE(3));
    ck_assert_int_eq(th_backward(total(th_mul(x, x)), NULL), TH_OK);
    json_t *root = data_of(NULL);
    const json_t *list = json_object_get(json_array_get(json_object_get(root, "nodes"), 0), "contributions");
    ck_assert_uint_eq(json_array_size(list), 2);
    same_elements(json_object_get(json_array_get(list, 0), "gradient"), x);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "how")), "written");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "how")), "added");
    json_decref(root);
}
END_TEST

START_TEST(forward_only)
{
    th_tensor *x = leaf("x", TH_SHAPE(3));
    (void)th_set_name(th_exp(x), "e");
    json_t *root = data_of(NULL);
    ck_assert(json_is_false(json_object_get(root, "backward")));
    ck_assert_int_eq(integer(root, "loss"), -1);
    ck_assert_int_eq(integer(json_array_get(json_object_get(root, "nodes"), 0), "order"), -1);
    ck_assert(json_is_null(json_object_get(named(root, "x"), "gradient")));
    ck_assert(json_is_null(json_object_get(named(root, "e"), "difference")));
    json_decref(root);
}
END_TEST

START_TEST(not_finite)
{
    th_tensor *x = leaf("x", TH_SHAPE(4)), *y = th_set_name(th_log(x), "y");
    ck_assert_int_eq(th_copy_in(x, (const float[]){0, -1, 1, INFINITY}, 4 * sizeof(float)), TH_OK);
    th_tape_clear(ctx);
    y = th_set_name(th_log(x), "y");
    ck_assert_int_eq(th_backward(total(y), NULL), TH_OK);
    json_t *root = data_of(NULL);
    double shown[4];
    ck_assert_int_eq(numbers_of(json_object_get(named(root, "y"), "value"), shown, 4), 4);
    ck_assert(shown[0] == -INFINITY && isnan(shown[1]) && shown[2] == 0 && shown[3] == INFINITY);
    json_decref(root);
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_OK);
}
END_TEST

START_TEST(no_elements)
{
    th_tensor *x = leaf("x", TH_SHAPE(0, 3)), *w = leaf("w", TH_SHAPE(2, 3));
    ck_assert_int_eq(th_backward(total(th_dense(x, w, NULL)), NULL), TH_OK);
    json_t *root = data_of(NULL);
    double shown[8];
    ck_assert_int_eq(numbers_of(json_object_get(named(root, "x"), "value"), shown, 8), 0);
    ck_assert_int_eq(numbers_of(json_object_get(named(root, "x"), "gradient"), shown, 8), 0);
    same_elements(json_object_get(named(root, "w"), "gradient"), th_gradient(w));
    json_decref(root);
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_OK);
}
END_TEST

START_TEST(strided)
{
    th_tensor *x = leaf("x", TH_SHAPE(4, 6));
    th_tensor *view = th_set_name(th_slice(th_transpose(x, TH_AXES(1, 0)), 0, 1, 6, 2), "view");
    ck_assert_int_eq(th_backward(total(th_mul(view, view)), NULL), TH_OK);
    json_t *root = data_of(NULL);
    same_elements(json_object_get(named(root, "view"), "value"), view);
    same_elements(json_object_get(named(root, "view"), "gradient"), th_gradient(view));
    ck_assert_int_ge(integer(named(root, "view"), "view_of"), 0);
    json_decref(root);
}
END_TEST

START_TEST(cropped)
{
    th_tensor *x = leaf("x", TH_SHAPE(40, 30));
    ck_assert_int_eq(th_backward(total(th_exp(x)), NULL), TH_OK);
    json_t *root = data_of(&(th_html_options){.max_elements = 100});
    const json_t *value = json_object_get(named(root, "x"), "value"), *shape = json_object_get(value, "shape");
    const int64_t rows = json_integer_value(json_array_get(shape, 0)),
                  columns = json_integer_value(json_array_get(shape, 1));
    double shown[128];
    ck_assert_int_eq(numbers_of(value, shown, 128), rows * columns);
    ck_assert_int_le(rows * columns, 100);
    ck_assert_int_ge(rows * columns, 64);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            ck_assert_double_eq(shown[i * columns + j], th_get(x, TH_INDEX(i, j)));
    json_decref(root);
}
END_TEST

/* -- attention -- */

/* The arrays inside fused attention equal the arrays of the composition, with every kind of mask and grouped heads. */
START_TEST(attention)
{
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT,
                          .additive = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(4, 1, 3), -1, 1)};
    th_tensor *q = leaf("q", TH_SHAPE(1, 4, 3, 2)), *k = leaf("k", TH_SHAPE(1, 2, 3, 2));
    th_tensor *v = leaf("v", TH_SHAPE(1, 2, 3, 2)), *slopes = leaf("slopes", TH_SHAPE(4));
    json_t *root[2];
    for (int fused = 0; fused < 2; fused++) {
        th_set_fusion(ctx, fused);
        th_set_seed(ctx, 5);
        const th_attention_options options = {.mask = &mask, .soft_cap = 2, .alibi = slopes, .dropout = 0.3};
        th_tensor *o = th_scaled_dot_product_attention(q, k, v, &options);
        ck_assert_int_eq(th_backward(total(th_mul(o, o)), NULL), TH_OK);
        root[fused] = data_of(NULL);
        th_tape_clear(ctx);
    }
    const json_t *inside[2] = {NULL};
    for (int fused = 0; fused < 2; fused++) {
        size_t i;
        const json_t *node;
        json_array_foreach (json_object_get(root[fused], "nodes"), i, node)
            if (!json_is_null(json_object_get(node, "attention")))
                inside[fused] = json_object_get(node, "attention");
        ck_assert_ptr_nonnull(inside[fused]);
    }
    static const char *const keys[] = {"scores", "mask", "weights", "dropped", "dweights", "dscores"};
    for (int i = 0; i < 6; i++) {
        double a[64], b[64];
        const json_t *of = json_object_get(inside[0], keys[i]);
        ck_assert_int_eq(numbers_of(of, a, 64), 36);
        ck_assert_int_eq(numbers_of(json_object_get(inside[1], keys[i]), b, 64), 36);
        for (int j = 0; j < 36; j++)
            ck_assert_msg(fabs(a[j] - b[j]) < 1e-6, "%s[%d] is %g and %g", keys[i], j, a[j], b[j]);
    }
    ck_assert_int_eq(integer(inside[1], "heads"), 4);
    for (int i = 0; i < 2; i++)
        json_decref(root[i]);
}
END_TEST

/* With a loss of 0 o + 2 L, where L is the log-sum-exp, the gradient of the scores is twice the weights. */
START_TEST(gradient_of_the_log_sum_exp)
{
    const th_dtype type = _i ? TH_FLOAT64 : TH_FLOAT32;
    th_tensor *q = th_set_requires_gradient(th_uniform(ctx, type, TH_SHAPE(1, 2, 3, 2), -1, 1), true), *sums = NULL;
    th_tensor *o = th_scaled_dot_product_attention(q, q, q, &(th_attention_options){.log_sum_exp = &sums});
    ck_assert_int_eq(th_backward(th_add(total(th_scale(o, 0)), total(th_scale(sums, 2))), NULL), TH_OK);
    json_t *root = data_of(NULL);
    const json_t *node, *inside = NULL;
    double weight[18], gradient[18];
    size_t n;
    json_array_foreach (json_object_get(root, "nodes"), n, node)
        if (!json_is_null(json_object_get(node, "attention")))
            inside = json_object_get(node, "attention");
    ck_assert_int_eq(numbers_of(json_object_get(inside, "weights"), weight, 18), 18);
    ck_assert_int_eq(numbers_of(json_object_get(inside, "dscores"), gradient, 18), 18);
    for (int i = 0; i < 18; i++)
        ck_assert_double_eq_tol(gradient[i], 2 * weight[i], _i ? 1e-15 : 1e-7);
    json_decref(root);
}
END_TEST

/* The scores on the page are the products, with the mask's numbers added at visible pairs; a hidden pair has the
 * product or 0. */
START_TEST(scores_of_attention)
{
    enum { HEADS = 2, QUERIES = 3, KEYS = 4, WIDTH = 2 };
    const th_dtype type = _i ? TH_FLOAT64 : TH_FLOAT32;
    th_tensor *q = th_set_requires_gradient(th_uniform(ctx, type, TH_SHAPE(1, HEADS, QUERIES, WIDTH), -1, 1), true);
    th_tensor *k = th_set_requires_gradient(th_uniform(ctx, type, TH_SHAPE(1, HEADS, KEYS, WIDTH), -1, 1), true);
    th_tensor *added = th_uniform(ctx, type, TH_SHAPE(HEADS, QUERIES, KEYS), 1, 2);
    th_tensor *v = th_set_requires_gradient(th_ones(ctx, type, TH_SHAPE(1, HEADS, KEYS, WIDTH)), true);
    const th_mask masks[] = {{.additive = added}, {.causal = TH_CAUSAL_TOP_LEFT, .additive = added}};
    for (int fused = 0; fused < 2; fused++)
        for (int m = 0; m < 2; m++) {
            th_set_fusion(ctx, fused);
            th_tensor *o = th_scaled_dot_product_attention(q, k, v, &(th_attention_options){.mask = &masks[m]});
            ck_assert_int_eq(th_backward(total(o), NULL), TH_OK);
            json_t *root = data_of(NULL);
            const json_t *node, *scores = NULL, *mask = NULL;
            double shown[64], visible[64];
            size_t n;
            json_array_foreach (json_object_get(root, "nodes"), n, node)
                if (!json_is_null(json_object_get(node, "attention"))) {
                    scores = json_object_get(json_object_get(node, "attention"), "scores");
                    mask = json_object_get(json_object_get(node, "attention"), "mask");
                }
            ck_assert_int_eq(numbers_of(scores, shown, 64), HEADS * QUERIES * KEYS);
            ck_assert_int_eq(json_is_null(mask), m == 0);
            if (m == 1)
                ck_assert_int_eq(numbers_of(mask, visible, 64), HEADS * QUERIES * KEYS);
            for (int i = 0; i < HEADS * QUERIES * KEYS; i++) {
                const int row = i / KEYS, key = i % KEYS, head = row / QUERIES;
                const bool seen = m == 0 || key <= row % QUERIES;
                double sum = 0;
                for (int e = 0; e < WIDTH; e++)
                    sum += th_get(q, TH_INDEX(0, head, row % QUERIES, e)) * th_get(k, TH_INDEX(0, head, key, e));
                sum /= sqrt(WIDTH);
                const double mask_of = seen ? th_get(added, TH_INDEX(head, row % QUERIES, key)) : 0;
                ck_assert_msg(fabs(shown[i] - (sum + mask_of)) < 1e-6 || (!seen && shown[i] == 0),
                              "pair %d has the score %g, not %g", i, shown[i], sum + mask_of);
                ck_assert(m == 0 || visible[i] == seen);
            }
            json_decref(root);
            th_tape_clear(ctx);
        }
}
END_TEST

/* The page leaves out large matrices of attention that the viewer can compute: not with a soft cap, and not if Q is
 * cropped. */
START_TEST(computed_matrices)
{
    enum { LENGTH = 160, WIDTH = 2 };
    static const struct {
        double soft_cap;
        int64_t max_elements;
        bool computed;
    } cases[] = {{0, LENGTH * WIDTH, true}, {2, LENGTH * WIDTH, false}, {0, LENGTH * WIDTH - 1, false}};
    th_tensor *q = leaf("q", TH_SHAPE(1, 1, LENGTH, WIDTH));
    th_tensor *o = th_scaled_dot_product_attention(
        q, q, q,
        &(th_attention_options){.soft_cap = cases[_i].soft_cap, .mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
    ck_assert_int_eq(th_backward(total(th_mul(o, o)), NULL), TH_OK);
    json_t *root = data_of(&(th_html_options){.max_elements = cases[_i].max_elements, .max_differences = -1});
    size_t i;
    const json_t *node, *inside = NULL;
    json_array_foreach (json_object_get(root, "nodes"), i, node)
        if (!json_is_null(json_object_get(node, "attention")))
            inside = json_object_get(node, "attention");
    static const char *const keys[] = {"scores", "weights", "dweights", "dscores"};
    for (int k = 0; k < 4; k++) {
        const json_t *array = json_object_get(inside, keys[k]);
        ck_assert_int_eq(json_is_true(json_object_get(array, "computed")), cases[_i].computed);
        ck_assert_int_eq(json_object_get(array, "data") == NULL, cases[_i].computed);
    }
    const json_t *mask = json_object_get(inside, "mask");
    ck_assert_str_eq(json_string_value(json_object_get(mask, "type")), "bits");
    if (cases[_i].computed)
        ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(mask, "shape"), 3)), LENGTH);
    json_decref(root);
}
END_TEST

/* -- the page -- */

static char *read_page(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

/* Returns section i's data in a page. */
static json_t *section(const char *page, int i)
{
    static const char begin[] = "<script type=\"application/json\">";
    for (; i >= 0; i--) {
        page = strstr(page, begin);
        ck_assert_ptr_nonnull(page);
        page += sizeof begin - 1;
    }
    return parse(page, (size_t)(strstr(page, "</script>") - page));
}

static const char hostile[] = "</script><script>alert(1)</script>&\"'\\\n\x01 é\xff \xe2\x80\xa8<!--";

START_TEST(hostile_names)
{
    const char *path = in_folder("page.html"), *const tokens[] = {hostile, "", "b"};
    th_tensor *x = leaf(hostile, TH_SHAPE(3));
    th_scope_begin(ctx, hostile);
    th_tensor *y = th_scope_end(ctx, th_set_name(th_exp(x), hostile));
    ck_assert_int_eq(th_backward(total(y), NULL), TH_OK);
    const th_html_options options = {.title = hostile, .tokens = tokens, .n_tokens = 3};
    ck_assert_int_eq(th_tape_write_html(ctx, path, &options), TH_OK);
    const char *page = read_page(path);
    ck_assert(th_is_utf8(page));
    ck_assert_int_eq(count(page, "alert(1)</script>"), 0);
    ck_assert_int_eq(count(page, "<script>alert"), 0);
    ck_assert_int_eq(count(page, "<script type=\"application/json\">"), 1);
    json_t *root = section(page, 0);
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_object_get(root, "title")), "</script><script>alert(1)</script>&\"'\\\n"));
    json_decref(root);
}
END_TEST

/* The picture has room for 60 bytes of a leaf's name, and for 24 of a result's. Here a character is at
 * both places. */
START_TEST(long_names)
{
    const char *path = in_folder("page.html");
    char name[64] = "x", shown[64];
    for (int i = 0; i < 30; i++)
        strcat(name, "é");
    ck_assert_uint_eq(strlen(name), 61);
    th_tensor *x[12]; /* more names than a row of the picture has room for */
    for (int i = 0; i < 12; i++)
        x[i] = leaf(name, TH_SHAPE(2));
    th_tensor *y = th_set_name(th_concat(x, 12, 0), name);
    ck_assert_int_eq(th_backward(total(th_exp(y)), NULL), TH_OK);
    ck_assert_int_eq(th_tape_write_html(ctx, path, NULL), TH_OK);
    const char *page = strstr(read_page(path), "<svg");
    snprintf(shown, sizeof shown, ">%.*s, x", 59, name);
    ck_assert_ptr_nonnull(strstr(page, shown));
    snprintf(shown, sizeof shown, " = %.*s</text>", 23, name);
    ck_assert_ptr_nonnull(strstr(page, shown));
    const char *replacement = strstr(page, "\xEF\xBF\xBD");
    ck_assert(replacement == NULL || replacement > strstr(page, "</svg>"));
}
END_TEST

START_TEST(several_sections)
{
    const char *path = in_folder("page.html");
    for (int i = 0; i < 3; i++) {
        th_tensor *x = leaf("x", TH_SHAPE(i + 1));
        ck_assert_int_eq(th_backward(total(th_exp(x)), NULL), TH_OK);
        ck_assert_int_eq(th_tape_write_html(ctx, path, &(th_html_options){.append = true}), TH_OK);
        th_tape_clear(ctx);
        th_tensor_free(x);
    }
    const char *page = read_page(path);
    ck_assert_int_eq(count(page, "<section class=\"tape\">"), 3);
    ck_assert_int_eq(count(page, "</html>"), 1);
    for (int i = 0; i < 3; i++) {
        json_t *root = section(page, i);
        const json_t *shape = json_object_get(named(root, "x"), "shape");
        ck_assert_int_eq(json_integer_value(json_array_get(shape, 0)), i + 1);
        json_decref(root);
    }
}
END_TEST

START_TEST(without_network)
{
    const char *path = in_folder("page.html");
    ck_assert_int_eq(th_backward(total(th_exp(leaf("x", TH_SHAPE(2)))), NULL), TH_OK);
    ck_assert_int_eq(th_tape_write_html(ctx, path, NULL), TH_OK);
    const char *page = read_page(path);
    ck_assert_int_eq(count(page, "http://") + count(page, "https://"), count(page, "http://www.w3.org/"));
    ck_assert_int_eq(count(page, "src=") + count(page, "@import") + count(page, "<link"), 0);
    ck_assert_ptr_nonnull(strstr(page, "<svg"));
    ck_assert_ptr_nonnull(strstr(page, "<table>"));
}
END_TEST

START_TEST(largest_options)
{
    ck_assert_int_eq(th_backward(total(th_exp(leaf("x", TH_SHAPE(2)))), NULL), TH_OK);
    const th_html_options options = {.max_elements = INT64_MAX, .max_differences = INT64_MAX};
    json_decref(data_of(&options));
}
END_TEST

/* -- errors -- */

START_TEST(errors)
{
    const char *path = in_folder("page.html");
    expect_status(th_tape_write_html(ctx, path, NULL), TH_ERROR_STATE, "the tape is empty");
    th_tensor *x = leaf("x", TH_SHAPE(2));
    th_tensor *loss = total(th_exp(x));
    expect_status(th_tape_write_html(ctx, NULL, NULL), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_tape_write_html(ctx, path, &(th_html_options){.n_tokens = 1}), TH_ERROR_ARGUMENT, "n_tokens is 1");
    expect_status(th_tape_write_html(ctx, in_folder("none/page.html"), NULL), TH_ERROR_FILE, "cannot be opened");
    expect_status(th_tape_write_html(ctx, "/dev/full", NULL), TH_ERROR_FILE, "could not be written");
    expect_status(th_tape_write_html(NULL, path, NULL), TH_ERROR_ARGUMENT, "the context is NULL");
    write_bytes(path, "mine", 4);
    expect_status(th_tape_write_html(ctx, path, &(th_html_options){.append = true}), TH_ERROR_FILE, "is not a page");
    ck_assert_str_eq(read_page(path), "mine");
    const char *pipe = in_folder("pipe");
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    expect_status(th_tape_write_html(ctx, pipe, &(th_html_options){.append = true}), TH_ERROR_FILE,
                  "not a regular file");
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    th_tensor *y = th_mul(x, x);
    ck_assert_int_eq(th_backward(total(y), NULL), TH_OK);
    ck_assert_int_eq(th_fill(x, 3), TH_OK);
    expect_status(th_tape_write_html(ctx, path, NULL), TH_ERROR_STATE, "was changed at");
    ck_assert_str_eq(read_page(path), "mine");
}
END_TEST

/* Backward does not read the operands of a sum, so that it runs after they were changed. */
START_TEST(values_changed)
{
    const char *path = in_folder("page.html");
    for (int changed = 0; changed < 3; changed++)
        for (int backward = 0; backward < 2; backward++) {
            th_tensor *x = leaf("x", TH_SHAPE(2)), *b = leaf("b", TH_SHAPE(2)), *y = th_add(x, b), *z = total(y);
            ck_assert_int_eq(th_fill((th_tensor *[]){x, y, z}[changed], 3), TH_OK);
            ck_assert_int_eq(backward ? th_backward(z, NULL) : TH_OK, TH_OK);
            expect_status(th_tape_write_html(ctx, path, NULL), TH_ERROR_STATE, "call th_tape_write_html before that");
            expect_status(th_tape_write_python(ctx, path, NULL), TH_ERROR_STATE, "was changed at ");
            expect_status(th_tape_explain(ctx, stdout, b, TH_INDEX(0)), TH_ERROR_STATE, "a value of");
            th_tape_clear(ctx);
            th_tensor_free(x);
            th_tensor_free(b);
        }
}
END_TEST

START_TEST(values_not_kept)
{
    th_keep_values(ctx, false);
    th_tensor *x = leaf("x", TH_SHAPE(2));
    th_scope_begin(ctx, "scope");
    th_tensor *loss = th_scope_end(ctx, total(th_mul(th_exp(x), th_sin(x))));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    expect_status(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_ERROR_STATE, "call th_keep_values before");
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    ck_assert_int_eq(th_tape_write_html(shapes, in_folder("page.html"), NULL), TH_ERROR_STATE);
    th_context_free(shapes);
}
END_TEST

/* A backward that fails releases the gradients. th_keep_values does not help then, and the message does not name it. */
START_TEST(failed_backward)
{
    th_tensor *loss = total(th_exp(leaf("x", TH_SHAPE(2))));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    expect_status(th_backward(loss, NULL), TH_ERROR_STATE, "was consumed by an earlier backward");
    expect_status(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_ERROR_STATE,
                  "was released because backward failed; clear the tape and run the step again");
    th_tape_clear(ctx);
    loss = total(th_exp(leaf("x", TH_SHAPE(2))));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_OK);
}
END_TEST

/* Without memory there is an error, nothing leaks, and the old page stays. */
START_TEST(no_memory)
{
    const char *path = in_folder("page.html");
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *q = leaf("q", TH_SHAPE(3, 2)), *loss = NULL;
    th_tensor *o = th_scaled_dot_product_attention(q, q, q, &(th_attention_options){.mask = &causal});
    loss = total(th_dense(o, leaf("w", TH_SHAPE(4, 2)), NULL));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    write_bytes(path, "old", 3);
    int failures = 0;
    for (int forever = 0; forever < 2; forever++)
        for (int64_t call = 1;; call++) {
            memory.fail_at = memory.calls + call;
            memory.forever = forever;
            const th_status status = th_tape_write_html(ctx, path, NULL);
            const bool failed = memory.calls >= memory.fail_at;
            memory.fail_at = 0;
            if (status == TH_OK) { /* the library tries a smaller block if a large one is refused */
                ck_assert_msg(!failed || !forever, "allocation %d failed without an error", (int)call);
                json_decref(section(read_page(path), 0));
                write_bytes(path, "old", 3);
                if (!failed)
                    break;
                continue;
            }
            expect_status(status, TH_ERROR_MEMORY, "memory");
            ck_assert_str_eq(read_page(path), "old");
            failures++;
        }
    ck_assert_int_gt(failures, 3);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("export_html", setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, values);
    tcase_add_test(tests, contributions);
    tcase_add_test(tests, forward_only);
    tcase_add_test(tests, not_finite);
    tcase_add_test(tests, no_elements);
    tcase_add_test(tests, strided);
    tcase_add_test(tests, cropped);
    tcase_add_test(tests, attention);
    tcase_add_loop_test(tests, gradient_of_the_log_sum_exp, 0, 2);
    tcase_add_loop_test(tests, scores_of_attention, 0, 2);
    tcase_add_loop_test(tests, computed_matrices, 0, 3);
    tcase_add_test(tests, hostile_names);
    tcase_add_test(tests, long_names);
    tcase_add_test(tests, several_sections);
    tcase_add_test(tests, without_network);
    tcase_add_test(tests, largest_options);
    tcase_add_test(tests, errors);
    tcase_add_test(tests, values_changed);
    tcase_add_test(tests, values_not_kept);
    tcase_add_test(tests, failed_backward);
    tcase_add_test(tests, no_memory);
    return run_suites();
}
