/* Jinja programs write what jinja2 writes with the environment of transformers (tests/fixtures/jinja/cases.jsonl), name
 * the place of an error, and end within their limits. */
#include <jansson.h>

#include "models/jinja/jinja.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

/* Checks one case of the file. */
static void check_case(const json_t *test, const json_t *variables)
{
    const json_t *template = json_object_get(test, "template"), *text = json_object_get(test, "text"), *pair;
    th_jinja_result result = {0};
    th_jinja *program = th_jinja_parse(ctx, "jinja", "case", json_string_value(template), json_string_length(template));
    const bool rendered = program && th_jinja_render(program, "jinja", variables, 0, NULL, &result) == TH_OK;
    ck_assert_msg(rendered == json_is_string(text), "%s: %s", json_string_value(template), th_error_message(ctx));
    if (rendered) {
        ck_assert_msg(strcmp(result.text.bytes, json_string_value(text)) == 0, "%s: \"%s\", not \"%s\"",
                      json_string_value(template), result.text.bytes, json_string_value(text));
        size_t i;
        ck_assert_uint_eq(result.spans, json_array_size(json_object_get(test, "spans")));
        json_array_foreach (json_object_get(test, "spans"), i, pair) {
            ck_assert_int_eq((json_int_t)result.span[i].begin, json_integer_value(json_array_get(pair, 0)));
            ck_assert_int_eq((json_int_t)result.span[i].end, json_integer_value(json_array_get(pair, 1)));
        }
    } else {
        ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "case, line "));
        th_error_clear(ctx);
    }
    th_jinja_result_free(&result);
    th_jinja_free(program);
}

START_TEST(cases_of_jinja2)
{
    FILE *file = fopen(FIXTURES "/jinja/cases.jsonl", "r");
    ck_assert_ptr_nonnull(file);
    json_t *first = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL), *test;
    int cases = 0;
    while ((test = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        check_case(test, json_object_get(first, "context"));
        json_decref(test);
        cases++;
    }
    ck_assert_int_gt(cases, 400);
    json_decref(first);
    fclose(file);
}
END_TEST

/* Renders a template without variables; the time is the morning of 5 July 2026 in UTC. */
static th_status render(const char *template, const th_jinja_limits *limits, th_jinja_result *result)
{
    json_t *variables = json_object();
    th_jinja *program = th_jinja_parse(ctx, "jinja", "chat", template, strlen(template));
    const th_status status =
        program ? th_jinja_render(program, "jinja", variables, 1783242000, limits, result) : th_error_code(ctx);
    th_jinja_free(program);
    json_decref(variables);
    return status;
}

START_TEST(places_of_errors)
{
    static const struct {
        const char *template, *words;
        th_status code;
    } cases[] = {
        {"a\n  {{ x y }}", "jinja: chat, line 2, column 8: the expression should end before 'y'", TH_ERROR_FILE},
        {"{% if 1 %}\n{% for %}", "line 2, column 8: a name is expected", TH_ERROR_FILE},
        {"\xc3\xa9{{ 1 / 0 }}", "line 1, column 7: a division by zero", TH_ERROR_VALUE},
        {"\n{{ x.y }}", "line 2, column 5: 'x' is undefined", TH_ERROR_VALUE},
        {"{{ raise_exception('No!') }}", "the template refuses the conversation: No!", TH_ERROR_VALUE},
        {"{{ [].append(1) }}", "'append (the sandbox forbids it)' is undefined", TH_ERROR_VALUE},
        {"{% for x in [] recursive %}{% endfor %}", "recursive loops are not supported", TH_ERROR_FILE},
        {"{% include 'x' %}", "the statement 'include' is not supported", TH_ERROR_FILE},
        {"{{ 1 | pprint }}", "the filter 'pprint' is unknown or not supported", TH_ERROR_VALUE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_jinja_result result = {0};
        expect_status(render(cases[i].template, NULL, &result), cases[i].code, cases[i].words);
        th_jinja_result_free(&result);
    }
}
END_TEST

START_TEST(the_date)
{
    th_jinja_result result = {0};
    ck_assert_int_eq(render("{{ strftime_now('%d %b %Y') }}", NULL, &result), TH_OK);
    ck_assert_str_eq(result.text.bytes, "05 Jul 2026");
    th_jinja_result_free(&result);
}
END_TEST

/* Hostile templates end with an error. */
START_TEST(limits)
{
#define SHORT "{% for a in range(999) %}"
#define LOOP "{% for a in range(99999) %}"
    static const struct {
        const char *template, *words;
    } cases[] = {
        {LOOP LOOP LOOP "{% endfor %}{% endfor %}{% endfor %}", "steps"},
        {"{% set n = namespace(x='a') %}" LOOP "{% set n.x = n.x + n.x %}{% endfor %}", "the template needs"},
        {"{{ 'a' * 1000 * 999999 }}", "the template writes more than"},
        {"{{ [1] * 999999999 }}", "the template needs"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested deeper than"},
        {"{% set n = namespace(x=[]) %}" SHORT "{% set n.x = [n.x] %}{% endfor %}{{ n.x }}", "nested too deep"},
        {"{% set n = namespace(x=[]) %}" SHORT "{% set n.x = [n.x] %}{% endfor %}{{ n.x | tojson }}",
         "nested too deep"},
        {"{% set n = namespace(x=[], y=[]) %}" SHORT "{% set n.x = [n.x] %}{% set n.y = [n.y] %}{% endfor %}"
         "{{ n.x == n.y }}",
         "nested too deep"},
        {"{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('a') }}", "the template needs"},
        {"{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}"
         "{{ g() }}",
         "nested deeper than"},
        {"{{ ('a' * 1000000).replace('', 'b' * 1000) }}", "the template"},
        {"{{ 'a' | center(1000000000) }}", "steps"},
        {"{{ 'a\nb' | indent(1000000000) }}", "steps"},
        {"{% set s = 'ab' * 100000 %}" LOOP "{% if s.replace('a', 'bb') or 'ac' in s or s | length %}{% endif %}"
         "{% endfor %}",
         "the template"},
        {"{% set l = range(9999) | list %}" LOOP "{% if l | join or l | tojson or -1 in l or l | sort %}{% endif %}"
         "{% endfor %}",
         "steps"},
        {"{% set n = namespace(d={}) %}" LOOP "{% set n.d = dict(n.d, **{'k' ~ a: a}) %}{% endfor %}", "steps"},
        {"{% set s %}" LOOP LOOP "xxxxxxxx{% endfor %}{% endfor %}{% endset %}", "the template"},
        {"{{ (-9223372036854775807 - 1) // -1 }}", "an integer is too large"},
        {"{{ 2 ** 99 }}", "an integer is too large"},
        {"{{ range(100001) }}", "a range may have"},
    };
    const th_jinja_limits small = {.steps = 200000, .memory = 32 << 20, .output = 1 << 20};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_jinja_result result = {0};
        const th_status status = render(cases[i].template, &small, &result);
        expect_failure(status != TH_OK, status, cases[i].words);
        th_jinja_result_free(&result);
    }
}
END_TEST

/* Brackets, signs and blocks that are nested too deep are refused by the parser. */
START_TEST(nested_programs)
{
    static const char *const parts[] = {"(", "[", "-", "not ", "1 if 1 else ", "{1:", "x("};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char text[8000] = "{{ ";
        th_jinja_result result = {0};
        for (int n = 0; n < 500; n++)
            strcat(text, parts[i]);
        expect_status(render(text, NULL, &result), TH_ERROR_FILE, "too deep");
        th_jinja_result_free(&result);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("jinja", setup, close_context);
    tcase_add_test(tests, cases_of_jinja2);
    tcase_add_test(tests, places_of_errors);
    tcase_add_test(tests, the_date);
    tcase_add_test(tests, limits);
    tcase_add_test(tests, nested_programs);
    return run_suites();
}
