/* Tokenizers when memory runs out. Every allocation of the C library and of the context fails in turn while a
 * tokenizer is created, read, written and used. The result is TH_ERROR_MEMORY (or TH_ERROR_FILE, because jansson
 * does not give the reason). Nothing leaks, and with memory the tokenizer works again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static long calls, fail_at; /* call number fail_at fails; 0: none */
static long live;           /* allocations that have not been freed */
#if OWN_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *malloc(size_t bytes)
{
    return ++calls == fail_at ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return ++calls == fail_at ? NULL : counted(__libc_calloc(count, bytes));
}

void *realloc(void *memory, size_t bytes)
{
    if (memory == NULL)
        return malloc(bytes);
    return ++calls == fail_at ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) /* the context's */
{
    return counted(__libc_memalign(alignment, bytes));
}

void free(void *memory)
{
    live -= memory != NULL;
    __libc_free(memory);
}
#endif

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

static bool (*const actions[])(void) = {train, make_bytes_and_characters, load, use, save};

/* Returns whether this malloc is the one that is called. The sanitizers and valgrind have their own. */
static bool counts_malloc(void)
{
    calls = 0;
    void *volatile byte = malloc(1);
    free(byte);
    return calls > 0;
}

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
        const bool good = actions[_i]();
        fail_at = 0;
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
    tcase_add_loop_test(tests, test_out_of_memory, 0, 5);
    tcase_add_test(tests, test_out_of_context_memory);
    return run_suites();
}
