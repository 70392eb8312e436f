/* Tokenizers when memory runs out. Every allocation of the C library and of the context fails in turn while a
 * tokenizer is created, read, written and used. The result is TH_ERROR_MEMORY (or TH_ERROR_FILE, because jansson
 * does not give the reason). Nothing leaks, and with memory the tokenizer works again. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "memory.h"
#include "models/text/added_tokens.h"
#include "models/text/grow.h"
#include "models/text/merges.h"
#include "models/text/pair_queue.h"
#include "models/text/tokenizer.h"
#include "tapehead/models.h"

#include "context.h"
#include "counted_malloc.h"
#include "folder.h"

static test_memory memory;
static char path[96];
static const char text[] = "the cat sat on the mat; the rat sat on the cat <|end|> 12 é\xff";

static void open_context(void)
{
    ctx = th_context_new(&(th_context_options){.allocator = allocator_of(&memory)});
    ck_assert_ptr_nonnull(ctx);
}

static void setup(void)
{
    open_context();
    make_folder();
    strcpy(path, in_folder("tokenizer.json"));
}

static void teardown(void)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"};
    for (size_t i = 0; i < 4; i++)
        unlink(in_folder(name[i]));
    ck_assert_int_eq(rmdir(folder), 0);
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
}

static bool train(void)
{
    static const char *const specials[] = {"<|end|>"};
    th_tokenizer *t = th_tokenizer_train(
        ctx, text, strlen(text),
        &(th_bpe_options){.vocabulary = 300, .specials = specials, .n_specials = 1, .pattern = " ?\\p{L}+|."});
    th_tokenizer_free(t);
    return t != NULL;
}

static bool train_word_piece(void)
{
    static const char *const specials[] = {"<|end|>"};
    th_tokenizer *t = th_tokenizer_train_word_piece(
        ctx, text, strlen(text),
        &(th_word_piece_options){
            .vocabulary = 40, .specials = specials, .n_specials = 1, .limit_alphabet = 12, .alphabet = "z"});
    th_tokenizer_free(t);
    return t != NULL;
}

static bool make_bytes_and_characters(void)
{
    th_tokenizer *bytes = th_tokenizer_bytes_new(ctx), *characters = th_tokenizer_characters_new(ctx, "abc", 3);
    const bool made = bytes && characters && th_tokenizer_add(bytes, "<|end|>") == 256;
    th_tokenizer_free(bytes);
    th_tokenizer_free(characters);
    return made;
}

static bool load(void)
{
    th_tokenizer *t = th_tokenizer_load(ctx, FIXTURES "/bpe/llama3.json");
    th_tokenizer_free(t);
    return t != NULL;
}

static th_tokenizer *ready;
static bool sound; /* the results are (Check's assertions would allocate memory, too) */

static bool use(void)
{
    th_token_list tokens = {0};
    th_text decoded = {0};
    static char word[200];
    memset(word, 'a', sizeof word);
    const bool good = th_tokenizer_encode(ready, text, strlen(text), &tokens) == TH_OK &&
                      th_tokenizer_encode_document(ready, word, sizeof word, &tokens) == TH_OK &&
                      th_tokenizer_decode(ready, tokens.token, tokens.count, &decoded) == TH_OK;
    th_token_list_free(&tokens);
    th_text_free(&decoded);
    return good;
}

static bool save(void)
{
    return th_tokenizer_save(ready, folder) == TH_OK;
}

/* Writes a file; no allocation fails meanwhile. */
static void write_file(const char *file)
{
    const long calls_before = calls, failing = fail_at;
    fail_at = 0;
    write_bytes(path, file, strlen(file));
    calls = calls_before;
    fail_at = failing;
}

/* A small tokenizer with a pattern, a space before each text, and added tokens within the text. */
static bool load_and_use_a_small_one(void)
{
    static const char file[] =
        "{\"added_tokens\": [{\"id\": 3, \"content\": \"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": "
        "false, \"normalized\": false, \"special\": true}], \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
        "\"add_prefix_space\": true}, \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
        "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": "
        "\"<s>\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [3]}}}, \"model\": {\"vocab\": {\"a\": 0, \"\xc4\xa0\": "
        "1, "
        "\"\xc4\xa0"
        "a\": 2}, \"merges\": [\"\xc4\xa0 a\"]}}";
    write_file(file);
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    th_token_list tokens = {0};
    static char many[600];
    for (size_t i = 0; i < sizeof many / 4; i++)
        memcpy(many + 4 * i, "<s>a", 4);
    const bool good = t && th_tokenizer_encode_document(t, many, sizeof many, &tokens) == TH_OK &&
                      th_tokenizer_encode(t, "a", 1, &tokens) == TH_OK && th_tokenizer_add(t, "<a new one>") == 4;
    sound = sound && (!good || (tokens.count == 303 && tokens.token[1] == 3 && tokens.token[2] == 2));
    th_token_list_free(&tokens);
    th_tokenizer_free(t);
    unlink(path);
    return good;
}

static bool load_one_with_several_patterns(void)
{
    static const char file[] =
        "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}, {\"type\": "
        "\"Split\", "
        "\"pattern\": {\"String\": \"-\"}, \"behavior\": \"Removed\"}, {\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"a+\"}, \"behavior\": \"Isolated\"}]}, \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}";
    write_file(file);
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    const bool good = t && th_tokenizer_save(t, folder) == TH_OK;
    th_tokenizer_free(t);
    unlink(path);
    return good;
}

/* Normalizers, a Metaspace, bytes in the place of characters, a decoder, and a normalized added token. */
static bool use_one_of_characters(void)
{
    static const char file[] =
        "{\"added_tokens\": [{\"id\": 6, \"content\": \"FO\", \"single_word\": true, \"lstrip\": false, \"rstrip\": "
        "false, \"normalized\": true, \"special\": false}], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
        "[{\"type\": \"NFKC\"}, {\"type\": \"Lowercase\"}, {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x+\"}, "
        "\"content\": \"aaaa\"}, {\"type\": \"Prepend\", \"prepend\": \"a\"}]}, \"pre_tokenizer\": {\"type\": "
        "\"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\"}, \"decoder\": {\"type\": \"Sequence\", "
        "\"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"abc\"}, {\"type\": "
        "\"Metaspace\", \"replacement\": \"_\"}, {\"type\": \"ByteFallback\"}]}, \"model\": {\"byte_fallback\": true, "
        "\"vocab\": {\"a\": 0, \"_\": 1, \"_a\": 2, \"<0xC3>\": 3, \"<0xA9>\": 4, \"<0x66>\": 5}, \"merges\": [\"_ "
        "a\"]}}";
    static const char words[] = "FO e\xcc\x81"
                                "xAf";
    write_file(file);
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    th_token_list tokens = {0};
    th_text decoded = {0};
    const bool good = t && th_tokenizer_encode(t, words, strlen(words), &tokens) == TH_OK &&
                      th_tokenizer_decode(t, tokens.token, tokens.count, &decoded) == TH_OK &&
                      th_tokenizer_save(t, folder) == TH_OK;
    sound = sound && (!good || (tokens.count == 10 && tokens.token[0] == 6 && decoded.count == 24));
    th_token_list_free(&tokens);
    th_text_free(&decoded);
    th_tokenizer_free(t);
    unlink(path);
    return good;
}

static bool save_a_small_one(void)
{
    th_tokenizer *t = th_tokenizer_characters_new(ctx, "ab", 2);
    const bool good = t && th_tokenizer_add(t, "<|end|>") == 2 && th_tokenizer_save(t, folder) == TH_OK;
    th_tokenizer_free(t);
    return good;
}

static bool (*const actions[])(void) = {train,
                                        train_word_piece,
                                        make_bytes_and_characters,
                                        load,
                                        use,
                                        save,
                                        load_and_use_a_small_one,
                                        load_one_with_several_patterns,
                                        use_one_of_characters,
                                        save_a_small_one};

START_TEST(test_out_of_memory)
{
    if (!counts_malloc())
        return;
    for (long n = 0;; n++) { /* the first time nothing fails, and the C library takes the memory that it keeps */
        close_context();
        const long before = live;
        open_context();
        ready = th_tokenizer_load(ctx, FIXTURES "/bpe/gpt2.json");
        no_error();
        calls = 0;
        fail_at = n;
        sound = true;
        const bool good = actions[_i]();
        fail_at = 0;
        ck_assert(sound);
        const bool failed = n == 0 || calls >= n;
        const th_status code = th_error_code(ctx);
        char message[1024];
        snprintf(message, sizeof message, "%s", th_error_message(ctx));
        th_context_free(ctx);
        ck_assert_msg(good == (code == TH_OK), "allocation %ld: %s", n, message);
        ck_assert_msg(code == TH_OK || code == TH_ERROR_MEMORY || code == TH_ERROR_FILE, "allocation %ld: %s", n,
                      message);
        ck_assert_msg(n == 0 || live == before, "allocation %ld: %ld are lost", n, live - before);
        open_context();
        if (!failed) {
            ck_assert(good);
            ck_assert_int_gt(n, 5);
            return;
        }
        if (n > 300) /* the rest is similar: a sample */
            n += n / 8;
    }
}
END_TEST

/* -- the tables alone, without a context -- */

/* Adds enough pairs that the table and the array grow. */
static bool add_merges(void)
{
    th_merges m = {0};
    bool good = true;
    for (int i = 0; good && i < 1500; i++)
        good = th_merges_add(&m, (th_merge){i, i, i}) && th_merges_is_valid(&m, (size_t)i);
    th_merges_release(&m);
    return good;
}

static bool merge_words(void)
{
    th_merges m = {0};
    th_word_memory word = {0};
    bool good = th_merges_add(&m, (th_merge){0, 0, 1});
    for (size_t count = 40; good && count < 200; count += 50) {
        size_t left;
        good = TH_GROW(word.token, word.capacity, count);
        if (good)
            memset(word.token, 0, count * sizeof *word.token);
        good = good && th_merges_apply(&m, &word, count, &left);
        sound = sound && (!good || left == count / 2);
    }
    th_word_memory_release(&word);
    th_merges_release(&m);
    return good;
}

static bool index_words(void)
{
    th_vocabulary v = {0};
    bool good = true;
    for (int i = 0; good && i < 1000; i++) {
        good = th_vocabulary_add(&v, (const char *)&i, sizeof i) && th_vocabulary_index(&v, i);
        sound = sound && (!good || th_vocabulary_find(&v, (const char *)&i, sizeof i) == i);
    }
    good = good && th_vocabulary_replace(&v, 0, text, strlen(text));
    th_vocabulary_release(&v);
    return good;
}

/* Words in which pairs appear and disappear again. */
static bool queue_pairs(void)
{
    th_pair_queue q = {0};
    bool good = true;
    for (int i = 0; good && i < 60; i++) {
        good = th_pair_queue_add_word(&q, 1 + i % 3);
        for (int k = 0; good && k < 40; k++)
            good = th_pair_queue_add_token(&q, k < 8 ? "abab"[k % 4] : i * k % 97);
    }
    good = good && th_pair_queue_begin(&q);
    int32_t left, other;
    for (int token = 256; good && token < 300 && th_pair_queue_next(&q, 2, &left, &other); token++)
        good = th_pair_queue_merge(&q, token, NULL, 0);
    good = good && !q.out_of_memory;
    sound = sound && (!good || q.slots > 1024);
    th_pair_queue_release(&q);
    return good;
}

static bool add_added_tokens(void)
{
    th_added_tokens a = {0};
    bool good = true;
    for (int i = 0; good && i < 40; i++) {
        const char content[] = {(char)('a' + i * 7 % 40), 0};
        const size_t before = a.all.count;
        good = th_added_tokens_add(&a, (th_added_token){.content = content, .bytes = 1, .id = i}, content, 1);
        sound = sound && a.all.count == before + good && good == (th_added_tokens_find(&a, content, 1) != NULL);
    }
    th_added_tokens_release(&a);
    return good;
}

/* Every allocation fails in turn. The function then says so, and nothing is lost. */
START_TEST(test_tables)
{
    static bool (*const tables[])(void) = {add_merges, merge_words, index_words, queue_pairs, add_added_tokens};
    if (!counts_malloc())
        return;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (long n = 0;; n++) {
            const long before = live;
            calls = 0;
            fail_at = n;
            sound = true;
            const bool good = tables[i]();
            const bool failed = n > 0 && calls >= n;
            fail_at = 0;
            ck_assert_msg(sound, "table %zu, allocation %ld", i, n);
            ck_assert_msg(good == !failed, "table %zu, allocation %ld", i, n);
            ck_assert_msg(live == before, "table %zu, allocation %ld: %ld are lost", i, n, live - before);
            if (n > 0 && good)
                break;
        }
}
END_TEST

/* Without memory a pattern has no reason of its own, so the caller reports the lack of memory. The context counts the
 * memory of a pattern that an automaton matches. */
START_TEST(test_pattern)
{
    char none[TH_PATTERN_REASON];
    const size_t before_any = bytes_of_malloc();
    th_pattern *made = th_pattern_new("a+", 2, none);
    const size_t taken = bytes_of_malloc() - before_any, counted = th_pattern_memory(made);
    ck_assert_uint_gt(counted, 1 << 17);
    ck_assert(taken == 0 || !OWN_MALLOC || (counted < taken && counted > taken - taken / 8));
    th_pattern_free(made);
    if (!counts_malloc())
        return;
    for (long n = 1; n <= 10; n++) {
        char reason[TH_PATTERN_REASON] = "x";
        const long before = live;
        calls = 0;
        fail_at = n;
        const th_pattern *pattern = th_pattern_new("a+", 2, reason);
        fail_at = 0;
        ck_assert(pattern == NULL && reason[0] == 0 && live == before);
    }
}
END_TEST

/* Sizes that overflow are out of memory. Arrays grow by half, at least to 16 elements. */
START_TEST(test_growing)
{
    void *array = NULL;
    size_t capacity = 0;
    ck_assert(!th_grow(&array, &capacity, PTRDIFF_MAX / 8 + 1, 8) && array == NULL && capacity == 0);
    ck_assert(!th_grow(&array, &capacity, SIZE_MAX, 1) && array == NULL && capacity == 0);
    ck_assert(th_grow(&array, &capacity, 0, 8) && array == NULL);
    ck_assert(th_grow(&array, &capacity, 1, 8) && capacity == 16);
    memset(array, 7, 128);
    ck_assert(th_grow(&array, &capacity, 16, 8) && capacity == 16);
    ck_assert(th_grow(&array, &capacity, 17, 8) && capacity == 24);
    ck_assert(th_grow(&array, &capacity, 100, 8) && capacity == 100 && ((char *)array)[127] == 7);
    free(array);
}
END_TEST

/* -- keys -- */

static bool without_entropy;

int getentropy(void *bytes, size_t count)
{
    if (without_entropy) {
        errno = ENOSYS;
        return -1;
    }
    return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -1;
}

/* Without random bytes from the system too, keys differ, and tables work. */
START_TEST(test_keys)
{
    for (int i = 0; i < 2; i++) {
        without_entropy = i;
        const th_hash_key first = th_hash_key_new();
        th_hash_key next = first;
        for (int k = 0; k < 1000 && next.start == first.start; k++)
            next = th_hash_key_new();
        ck_assert(next.start != first.start && next.factor != first.factor);
        ck_assert(th_hash_number(first, 1) != th_hash_number(first, 2));
        sound = true;
        ck_assert(index_words() && sound);
    }
    without_entropy = false;
}
END_TEST

/* -- the context's count -- */

static void expect_counted(size_t counted, size_t taken)
{
    if (taken == 0 || !OWN_MALLOC)
        return;
    ck_assert_msg(counted > taken - taken / 8 && counted < taken + taken / 8, "%zu bytes counted, %zu taken", counted,
                  taken);
}

/* What the context counts for a tokenizer is what it takes from the C library. */
START_TEST(test_counted)
{
    size_t live_before = th_memory(ctx).live, before = bytes_of_malloc();
    th_tokenizer *t = th_tokenizer_load(ctx, FIXTURES "/bpe/gpt2.json");
    no_error();
    expect_counted(th_memory(ctx).live - live_before, bytes_of_malloc() - before);
    live_before = th_memory(ctx).live;
    before = bytes_of_malloc();
    char content[64];
    for (int i = 0; i < 1500; i++) {
        snprintf(content, sizeof content, "<|an added token with a number of its own: %4d|>", i);
        ck_assert_int_ge(th_tokenizer_add(t, content), 0);
    }
    expect_counted(th_memory(ctx).live - live_before, bytes_of_malloc() - before);
}
END_TEST

/* The count is that of each array. */
START_TEST(test_counted_arrays)
{
    const th_tokenizer *t = th_tokenizer_load(ctx, FIXTURES "/bpe/gpt2.json");
    no_error();
    void *const arrays[] = {t->vocabulary.entry,     t->vocabulary.pool,
                            t->vocabulary.slot,      t->merges.merge,
                            t->merges.slot,          t->merges.filter,
                            t->added.all.token,      (char *)t->added.all.token->content,
                            t->added.found[0].token, (char *)t->added.found[0].token->content};
    ck_assert_uint_eq(t->added.all.count, 1);
    size_t bytes = TH_CACHED_WORDS * (sizeof *t->cache + sizeof *t->cache_mark);
    bytes += th_pattern_memory(t->split.stage[0].pattern);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        bytes += malloc_usable_size(arrays[i]);
    ck_assert_msg(t->counted_bytes < bytes + 64 && t->counted_bytes + 300 > bytes, "%zu bytes counted, %zu taken",
                  t->counted_bytes, bytes);
    ck_assert_uint_eq(t->counted_bytes % 64, 0);
}
END_TEST

/* The context allocates the handle. */
START_TEST(test_out_of_context_memory)
{
    run_out(&memory);
    assert_error(th_tokenizer_bytes_new(ctx), TH_ERROR_MEMORY, "out of memory");
    memory.fail_at = 0;
    ck_assert_ptr_nonnull(th_tokenizer_bytes_new(ctx));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizer memory", setup, teardown);
    tcase_add_loop_test(tests, test_out_of_memory, 0, (int)(sizeof actions / sizeof *actions));
    tcase_add_test(tests, test_tables);
    tcase_add_test(tests, test_pattern);
    tcase_add_test(tests, test_growing);
    tcase_add_test(tests, test_keys);
    tcase_add_test(tests, test_counted);
    tcase_add_test(tests, test_counted_arrays);
    tcase_add_test(tests, test_out_of_context_memory);
    return run_suites();
}
