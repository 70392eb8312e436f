/* Renders templates for the comparison with transformers (jinja.py). Each line of the input is
 * {"template": ..., "context": {...}, "now": seconds}; the answer is {"text": ..., "spans": [[begin, end], ...]}, or
 * {"error": ...}. With the argument "kinds" it prints the templates of all kinds, as {"chatml": ..., ...}. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "models/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

static json_t *render(th_context *ctx, const json_t *request)
{
    const json_t *template = json_object_get(request, "template");
    th_jinja_result result = {0};
    json_t *answer = json_object(), *spans = json_array();
    th_jinja *program =
        th_jinja_parse(ctx, "jinja", "template", json_string_value(template), json_string_length(template));
    if (program &&
        th_jinja_render(program, "jinja", json_object_get(request, "context"),
                        (time_t)json_integer_value(json_object_get(request, "now")), NULL, &result) == TH_OK) {
        json_object_set_new(answer, "text", json_stringn(result.text.bytes, result.text.count));
        for (size_t i = 0; i < result.spans; i++)
            json_array_append_new(
                spans, json_pack("[I, I]", (json_int_t)result.span[i].begin, (json_int_t)result.span[i].end));
        json_object_set(answer, "spans", spans);
    } else
        json_object_set_new(answer, "error", json_string(th_error_text(ctx)));
    json_decref(spans);
    th_jinja_result_free(&result);
    th_jinja_free(program);
    return answer;
}

/* Prints the templates of all kinds. */
static int print_kinds(void)
{
    th_context *ctx = th_context_new(NULL);
    json_t *kinds = json_object();
    for (int i = 0; th_chat_kind_name(i); i++) {
        th_text text = {0};
        if (th_chat_template_text_as(ctx, ".", th_chat_kind_name(i), &text) != TH_OK)
            return EXIT_FAILURE;
        json_object_set_new(kinds, th_chat_kind_name(i), json_stringn(text.bytes, text.count));
        th_text_free(&text);
    }
    json_dumpf(kinds, stdout, 0);
    json_decref(kinds);
    th_context_free(ctx);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "kinds") == 0)
        return print_kinds();
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t count; (count = getline(&line, &capacity, stdin)) > 0;) {
        th_context *ctx = th_context_new(NULL);
        json_t *request = json_loadb(line, (size_t)count, 0, NULL), *answer = render(ctx, request);
        json_dumpf(answer, stdout, 0);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(request);
        th_context_free(ctx);
    }
    free(line);
    return EXIT_SUCCESS;
}
