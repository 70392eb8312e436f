/* A tokenizer.json of given members, for tests of its parts: loading it, its tokens, and the message if it is
 * rejected. */
#ifndef TESTS_TOKENIZER_FILE_H
#define TESTS_TOKENIZER_FILE_H

#include <stdio.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static char path[96];
static th_token_list tokens;

static inline void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
    make_folder();
    strcpy(path, in_folder("tokenizer.json"));
}

static inline void teardown(void)
{
    th_token_list_free(&tokens);
    remove_folder();
    close_context();
}

/* Byte-level letters, a space (\xc4\xa0), and a text that no byte-level model can make. */
#define VOCAB                                                                                                          \
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\xc4\xa0\": 3, \"-\": 4, \"1\": 5, \"x y\": 6, \"\xc4\xa0"           \
    "a\": 7}"
#define MODEL "\"model\": {" VOCAB ", \"merges\": [\"a b\", \"\xc4\xa0 a\"]}"
#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"

static inline th_tokenizer *load(const char *text)
{
    write_bytes(path, text, strlen(text));
    return th_tokenizer_load(ctx, path);
}

/* Loads a file of these members. */
static inline th_tokenizer *load_members(const char *members, const char *model)
{
    char text[8192];
    const int bytes = snprintf(text, sizeof text, "{%s%s%s}", members, *members ? ", " : "", model);
    ck_assert_int_lt(bytes, (int)sizeof text);
    return load(text);
}

static inline th_tokenizer *load_pieces(const char *parts)
{
    char text[4096];
    snprintf(text, sizeof text, "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s]}", parts);
    return load_members(text, MODEL);
}

/* Checks the tokens, written as digits. */
static inline void expect_tokens(th_tokenizer *t, const char *text, const char *digits)
{
    no_error();
    tokens.count = 0;
    ck_assert_msg(th_tokenizer_encode_document(t, text, strlen(text), &tokens) == TH_OK, "%s", th_error_message(ctx));
    char got[200] = "";
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%d", (int)tokens.token[i]);
    ck_assert_msg(strcmp(got, digits) == 0, "'%s' gives %s, not %s", text, got, digits);
}

/* The message names the operation and the file, and then says this. */
static inline void expect_refused(const th_tokenizer *t, const char *file, const char *sentence)
{
    char wanted[600];
    snprintf(wanted, sizeof wanted, "tokenizer_load: %s: %s; at t", file, sentence);
    ck_assert_msg(strncmp(th_error_message(ctx), wanted, strlen(wanted)) == 0, "'%s' is not '%s'",
                  th_error_message(ctx), wanted);
    expect_failure(t == NULL, TH_ERROR_FILE, "");
}

#endif
