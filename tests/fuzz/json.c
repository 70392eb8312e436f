/* Fuzz target: JSON. Within the limits the library accepts the texts that jansson accepts, with equal values. jansson
 * takes no more memory than th_json_measure forecasts. An object that is read one member at a time has the same
 * members. */
#include "models/files/json.h"

#include "fuzz.h"

static const th_json_limits limits = {.bytes = 1 << 16, .depth = 16};

/* -- the memory that jansson takes -- */

static size_t taken, most;

static void *take(size_t bytes)
{
    size_t *block = malloc(sizeof(max_align_t) + bytes);
    if (block == NULL)
        return NULL;
    *block = bytes;
    taken += bytes;
    most = taken > most ? taken : most;
    return (char *)block + sizeof(max_align_t);
}

static void give(void *memory)
{
    if (memory == NULL)
        return;
    size_t *block = (size_t *)((char *)memory - sizeof(max_align_t));
    taken -= *block;
    free(block);
}

/* -- checks -- */

/* Whether a text has something that the library rejects and jansson does not: the integer -0, and numbers of more than
 * 64 characters. Both can only appear outside strings in a text that jansson accepts. */
static bool has_refused_number(const char *text, size_t count)
{
    static const char ends[] = " \t\n\r,:{}[]\"";
    bool inside = false;
    for (size_t i = 0; i < count; i++) {
        size_t word = 0;
        while (!inside && i + word < count && memchr(ends, text[i + word], sizeof ends - 1) == NULL)
            word++;
        if ((word == 2 && memcmp(text + i, "-0", 2) == 0) || word > TH_JSON_MAX_NUMBER)
            return true;
        i += word;
        if (i < count && inside && text[i] == '\\')
            i++;
        else if (i < count && text[i] == '"')
            inside = !inside;
    }
    return false;
}

/* Returns the depth of nested objects and arrays. */
static int depth_of(const json_t *value)
{
    int deepest = 0;
    const char *key;
    json_t *each;
    size_t i;
    json_object_foreach ((json_t *)(uintptr_t)value, key, each) {
        const int depth = depth_of(each);
        deepest = depth > deepest ? depth : deepest;
    }
    json_array_foreach (value, i, each) {
        const int depth = depth_of(each);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + (json_is_object(value) || json_is_array(value));
}

/* Whether jansson's value has something that the library's limits exclude. */
static bool is_outside_limits(const char *text, size_t count, const json_t *expected)
{
    return count > limits.bytes || depth_of(expected) > limits.depth || has_refused_number(text, count);
}

/* Reads the members of an object one at a time. */
static void check_members(const th_json_source *source, const char *text, size_t count, const json_t *expected)
{
    size_t members = 0, spaces = (size_t)((const char *)memchr(text, '{', count) - text);
    th_json_iterator it = th_json_iterate(source, text + spaces, count - spaces);
    for (; th_json_next(&it); members++) {
        json_t *key = th_json_build(source, it.key, it.key_bytes);
        json_t *value = th_json_build(source, it.value, it.value_bytes);
        FUZZ_CHECK(key && value && json_equal(json_object_get(expected, json_string_value(key)), value),
                   "member %zu differs", members);
        json_decref(key);
        json_decref(value);
    }
    FUZZ_CHECK(!it.failed && members == json_object_size(expected), "%zu members instead of %zu", members,
               json_object_size(expected));
}

/* A text that the limits allow can be read one member at a time, even if its members are not JSON. */
static void walk_members(const th_json_source *source, const char *text, size_t count)
{
    size_t memory;
    if (count > 0 && text[0] == '{' && th_json_measure(source, text, count, &limits, &memory) == TH_OK)
        for (th_json_iterator it = th_json_iterate(source, text, count); th_json_next(&it);)
            FUZZ_CHECK(it.key >= text && it.value + it.value_bytes <= text + count && it.value_bytes > 0 &&
                           it.key + it.key_bytes < it.value,
                       "a member is outside the text");
    if (th_error_code(source->ctx) != TH_OK)
        (void)fuzz_rejected(source->ctx, true, source->name);
}

/* Reads a text, and compares the memory that jansson takes with the forecast. */
static json_t *read_measured(const th_json_source *source, const char *text, size_t count)
{
    size_t memory = 0;
    const bool measured = th_json_measure(source, text, count, &limits, &memory) == TH_OK;
    (void)fuzz_rejected(source->ctx, !measured, source->name);
    const size_t before = most = taken;
    json_t *value = th_json_read(source, text, count, &limits);
    FUZZ_CHECK(most - before <= (measured ? memory : 0), "jansson took %zu bytes, the forecast was %zu", most - before,
               memory);
    return value;
}

static void check_text(th_context *ctx, const char *text, size_t count)
{
    const th_json_source source = {ctx, "reading", "the text"};
    json_t *expected = json_loadb(text, count, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    json_t *value = read_measured(&source, text, count);
    if (value) {
        FUZZ_CHECK(expected && json_equal(value, expected), "the value differs from jansson's");
        FUZZ_CHECK(!is_outside_limits(text, count, expected), "the text is outside the limits");
        if (json_is_object(value))
            check_members(&source, text, count, expected);
    } else {
        FUZZ_CHECK(expected == NULL || is_outside_limits(text, count, expected), "refused: %s", th_error_message(ctx));
        (void)fuzz_rejected(ctx, true, source.name);
        walk_members(&source, text, count);
    }
    json_decref(expected);
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(take, give);
    th_context *ctx = fuzz_context(1 << 24);
    check_text(ctx, (const char *)data, size);
    fuzz_context_free(ctx);
    json_set_alloc_funcs(allocate, release);
    return 0;
}
