/* Fuzz target: programs of chat templates. The input is a program. Parsing and rendering end within the limits, with the
 * place of an error, and twice with the same result. The blocks that count are inside the text, in ascending order. */
#include "models/jinja/jinja.h"

#include "fuzz.h"

enum { MEMORY = 64 << 20 };
static const th_jinja_limits limits = {.steps = 200000, .memory = 16 << 20, .output = 1 << 20};

/* The variables of the cases in tests/fixtures/jinja. */
static const char variables[] = "{\"n\": 7, \"x\": 2.5, \"t\": true, \"z\": null, \"s\": \" Ab \\u00e9\\u65e5 \", "
                                "\"w\": \"one two,three\", \"e\": \"\", "
                                "\"l\": [3, 1, 2], \"d\": {\"b\": 1, \"a\": [1, {\"c\": null}], \"items\": \"own\"}, "
                                "\"q\": \"it's \\\"q\\\"\\n\\t\\\\\", "
                                "\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"tools\": [{\"type\": \"function\", "
                                "\"function\": {\"name\": \"f\", "
                                "\"parameters\": {\"a\": 1}}}], \"add_generation_prompt\": true, \"messages\": "
                                "[{\"role\": \"system\", \"content\": "
                                "\"Be brief.\"}, {\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
                                "\"content\": \"\", \"tool_calls\": "
                                "[{\"id\": \"call00001\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": "
                                "1}}}]}, {\"role\": \"tool\", \"content\": "
                                "\"x\", \"tool_call_id\": \"call00001\"}, {\"role\": \"assistant\", \"content\": "
                                "\"<think>\\na\\n</think>\\n\\nyou\"}]}";

/* Renders and checks the result. */
static th_status render(th_context *ctx, const th_jinja *program, const json_t *values, th_jinja_result *result)
{
    const th_status status = th_jinja_render(program, "jinja", values, 1783242000, &limits, result);
    size_t end = 0;
    if (status != TH_OK)
        FUZZ_CHECK(strstr(th_error_text(ctx), ", line ") || status == TH_ERROR_MEMORY, "no place: %s",
                   th_error_text(ctx));
    FUZZ_CHECK(result->text.count <= limits.output, "the text has %zu bytes", result->text.count);
    for (size_t i = 0; status == TH_OK && i < result->spans; i++) {
        FUZZ_CHECK(result->span[i].begin >= end && result->span[i].end >= result->span[i].begin, "part %zu", i);
        end = result->span[i].end;
        FUZZ_CHECK(end <= result->text.count, "part %zu ends at %zu of %zu", i, end, result->text.count);
    }
    fuzz_failed(ctx, status != TH_OK);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    th_context *ctx = fuzz_context(MEMORY);
    json_t *values = json_loads(variables, 0, NULL);
    th_jinja *program = th_jinja_parse(ctx, "jinja", "template", (const char *)data, size);
    fuzz_failed_with(ctx, program == NULL, TH_ERROR_FILE);
    if (program) {
        th_jinja_result a = {0}, b = {0};
        const th_status status = render(ctx, program, values, &a);
        FUZZ_CHECK(render(ctx, program, values, &b) == status, "the second rendering has another status");
        FUZZ_CHECK(a.text.count == b.text.count && memcmp(a.text.bytes, b.text.bytes, a.text.count) == 0,
                   "the second rendering has another text");
        th_jinja_result_free(&a);
        th_jinja_result_free(&b);
        th_jinja_free(program);
    }
    json_decref(values);
    fuzz_context_free(ctx);
    return 0;
}
