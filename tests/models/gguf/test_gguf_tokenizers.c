/* Tokenizers of GGUF files that llama.cpp's converters write: SentencePiece's BPE with scores, and every way to split
 * text. The vocabularies are small; scripts/interop/gguf_vocabularies.py reads those of llama.cpp. */
#include <math.h>

#include "models/text/tokenizer.h"
#include "tapehead/gguf.h"

#include "folder.h"

#include "context.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* -- files with a tokenizer only -- */

enum { INT32 = 5, UINT32 = 4, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6, MAX_VOCABULARY = 400 };

/* A tokenizer, as values of a file. Members that are NULL or 0 are left out. */
typedef struct vocabulary {
    const char *model, *pre, *name;
    const char *token[MAX_VOCABULARY];
    float score[MAX_VOCABULARY];
    int32_t type[MAX_VOCABULARY];
    int tokens, scores, merges;
    const char *merge[16];
    bool no_space, no_begin, merges_spaces;
    const unsigned char *map; /* [map_bytes], of Unigram */
    int map_bytes;
    uint32_t map_kind;
} vocabulary;

static void put32(FILE *file, uint32_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put64(FILE *file, uint64_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put_string(FILE *file, const char *text)
{
    put64(file, strlen(text));
    fwrite(text, 1, strlen(text), file);
}

static void put_text(FILE *file, const char *key, const char *text)
{
    put_string(file, key);
    put32(file, STRING);
    put_string(file, text);
}

static void put_flag(FILE *file, const char *key, bool value)
{
    put_string(file, key);
    put32(file, BOOL);
    fwrite(&value, 1, 1, file);
}

static void put_array(FILE *file, const char *key, uint32_t kind, int count)
{
    put_string(file, key);
    put32(file, ARRAY);
    put32(file, kind);
    put64(file, (uint64_t)count);
}

static const char *write_vocabulary(const vocabulary *v)
{
    const char *path = in_folder("v.gguf");
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fwrite("GGUF", 1, 4, file);
    put32(file, 3);
    put64(file, 0);
    put64(file, (uint64_t)(4 + (v->pre != NULL) + (v->name != NULL) + (v->scores > 0) + (v->merges > 0) + v->no_space +
                           v->no_begin + v->merges_spaces + (v->map != NULL)));
    put_text(file, "tokenizer.ggml.model", v->model);
    if (v->pre)
        put_text(file, "tokenizer.ggml.pre", v->pre);
    if (v->name)
        put_text(file, "general.name", v->name);
    put_array(file, "tokenizer.ggml.tokens", STRING, v->tokens);
    for (int i = 0; i < v->tokens; i++)
        put_string(file, v->token[i]);
    put_array(file, "tokenizer.ggml.token_type", INT32, v->tokens);
    for (int i = 0; i < v->tokens; i++)
        put32(file, (uint32_t)(v->type[i] ? v->type[i] : NORMAL));
    if (v->scores > 0) {
        put_array(file, "tokenizer.ggml.scores", FLOAT32, v->scores);
        fwrite(v->score, sizeof v->score[0], (size_t)v->scores, file);
    }
    if (v->merges > 0)
        put_array(file, "tokenizer.ggml.merges", STRING, v->merges);
    for (int i = 0; i < v->merges; i++)
        put_string(file, v->merge[i]);
    put_string(file, "tokenizer.ggml.bos_token_id");
    put32(file, UINT32);
    put32(file, 1);
    if (v->no_space)
        put_flag(file, "tokenizer.ggml.add_space_prefix", false);
    if (v->no_begin)
        put_flag(file, "tokenizer.ggml.add_bos_token", false);
    if (v->merges_spaces)
        put_flag(file, "tokenizer.ggml.remove_extra_whitespaces", true);
    if (v->map) {
        put_array(file, "tokenizer.ggml.precompiled_charsmap", v->map_kind, v->map_bytes);
        fwrite(v->map, 1, (size_t)v->map_bytes, file);
    }
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static th_tokenizer *read_vocabulary(const vocabulary *v)
{
    th_tokenizer *t = th_tokenizer_from_gguf(ctx, write_vocabulary(v));
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    return t;
}

static void expect_refused(const vocabulary *v, const char *part)
{
    ck_assert_ptr_null(th_tokenizer_from_gguf(ctx, write_vocabulary(v)));
    expect_error(TH_ERROR_FILE, part);
}

/* Adds a token, and returns its id. */
static int add(vocabulary *v, const char *token, int32_t type, float score)
{
    v->token[v->tokens] = token;
    v->type[v->tokens] = type;
    v->score[v->tokens] = score;
    v->scores = v->tokens + 1;
    return v->tokens++;
}

/* Checks the ids of a text: "7 12 3". */
static void expect_ids(th_tokenizer *t, const char *text, bool document, const char *wanted)
{
    th_token_list list = {0};
    char ids[400] = "";
    size_t at = 0;
    const th_status status = document ? th_tokenizer_encode_document(t, text, strlen(text), &list)
                                      : th_tokenizer_encode(t, text, strlen(text), &list);
    ck_assert_msg(status == TH_OK, "%s", th_error_message(ctx));
    for (size_t i = 0; i < list.count && at < sizeof ids; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, i ? " %d" : "%d", (int)list.token[i]);
    ck_assert_msg(strcmp(ids, wanted) == 0, "'%s': %s instead of %s", text, ids, wanted);
    th_token_list_free(&list);
}

/* -- scores -- */

#define SPACE "\xe2\x96\x81"

static char byte_names[256][8];

/* Returns a vocabulary as SentencePiece writes it: 3 special tokens, 256 of bytes (3 .. 258), then characters. */
static vocabulary *new_scored(void)
{
    static vocabulary v;
    v = (vocabulary){.model = "llama", .pre = "default"};
    add(&v, "<unk>", UNKNOWN, 0);
    add(&v, "<s>", CONTROL, 0);
    add(&v, "</s>", CONTROL, 0);
    for (int i = 0; i < 256; i++) {
        snprintf(byte_names[i], sizeof byte_names[i], "<0x%02X>", (unsigned)i);
        add(&v, byte_names[i], BYTE, 0);
    }
    static const char *const characters[] = {SPACE, "a", "b", "c", "\n"}; /* 259 .. 263 */
    for (int i = 0; i < 5; i++)
        add(&v, characters[i], NORMAL, -1000 - (float)i);
    return &v;
}

START_TEST(scores_choose_the_merge)
{
    vocabulary *v = new_scored();
    add(v, "ab", NORMAL, -2);        /* 264 */
    add(v, "bc", NORMAL, -1);        /* 265: before "ab" */
    add(v, SPACE "a", NORMAL, -3);   /* 266 */
    add(v, "abc", NORMAL, -4);       /* 267 */
    add(v, SPACE SPACE, NORMAL, -5); /* 268 */
    th_tokenizer *t = read_vocabulary(v);
    expect_ids(t, "abc", false, "266 265");
    expect_ids(t, "abc", true, "1 266 265");
    expect_ids(t, "ab ab", false, "259 264 259 264");
    expect_ids(t, " a", false, "259 266");
    expect_ids(t, "  c", false, "268 259 262");
    expect_ids(t, "", true, "1");
    expect_ids(t, "\xc3\xa9", false, "259 198 172"); /* the bytes c3, a9 */
    expect_ids(t, "c</s>abc", false, "259 262 2 266 265");
    v->no_space = v->no_begin = true;
    t = read_vocabulary(v);
    expect_ids(t, "abc", true, "267");
}
END_TEST

/* Merges as llama.cpp does, without a table or a queue: the pair whose text is the token with the highest score, the
 * leftmost of equal ones. Returns the number of tokens. */
static int merge_naively(const vocabulary *v, char piece[][16], int count)
{
    for (;;) {
        int best = -1;
        float score = 0;
        for (int i = 0; i + 1 < count; i++) {
            char joined[32];
            strcpy(joined, piece[i]);
            strcat(joined, piece[i + 1]);
            for (int k = 259; k < v->tokens; k++)
                if (strcmp(v->token[k], joined) == 0 && (best < 0 || v->score[k] > score)) {
                    best = i;
                    score = v->score[k];
                }
        }
        if (best < 0)
            return count;
        strcat(piece[best], piece[best + 1]);
        memmove(piece[best + 1], piece[best + 2], (size_t)(count - best - 2) * sizeof piece[0]);
        count--;
    }
}

/* Many tokens of few characters, with equal scores: ties and overlapping pairs are frequent. */
START_TEST(merges_equal_a_plain_search)
{
    static const char *const tokens[] = {"aa", "aaa", "aaaa", "ab", "ba", "aba", "bab", "bb", "abab", "bba", "aab"};
    vocabulary *v = new_scored();
    v->no_space = true;
    unsigned random = 1;
    for (int i = 0; i < 11; i++)
        add(v, tokens[i], NORMAL, -(float)(i % 4));
    th_tokenizer *t = read_vocabulary(v);
    for (int trial = 0; trial < 500; trial++) {
        char piece[64][16] = {{0}}, text[80] = "", wanted[400] = "";
        const int count = 1 + trial % 60; /* long words have another algorithm */
        for (int i = 0; i < count; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = piece[i][0] = "ab"[random >> 31];
        }
        const int left = merge_naively(v, piece, count);
        for (int i = 0; i < left; i++)
            for (int k = 259; k < v->tokens; k++)
                if (strcmp(v->token[k], piece[i]) == 0)
                    snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), i ? " %d" : "%d", k);
        expect_ids(t, text, false, wanted);
    }
}
END_TEST

START_TEST(scores_and_text)
{
    vocabulary *v = new_scored();
    v->name = "Phi-3 small";
    add(v, "<|user|>", CONTROL, 0);      /* 264: white space behind it belongs to it */
    add(v, "<|endoftext|>", CONTROL, 0); /* 265 */
    add(v, "cc", USER_DEFINED, 0);       /* 266: found before a space is added */
    th_tokenizer *t = read_vocabulary(v);
    expect_ids(t, "a<|user|>\n b", false, "259 260 264 259 261");
    expect_ids(t, "<|endoftext|>\nb", false, "265 259 263 261");
    expect_ids(t, "accb", false, "259 260 266 259 261");
    expect_ids(t, "acc  b", false, "259 260 266 259 261"); /* the spaces behind it belong to it, too */
    v->name = "other";
    expect_ids(read_vocabulary(v), "<|user|>\nb", false, "264 259 263 261");
    th_text text = {0};
    ck_assert_int_eq(th_tokenizer_decode(t, (const int32_t[]){259, 260, 259, 198, 172}, 5, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "a \xc3\xa9");
    th_text_free(&text);
    ck_assert(th_tokenizer_is_special(t, 0) && th_tokenizer_is_special(t, 264) && !th_tokenizer_is_special(t, 266));
}
END_TEST

START_TEST(wrong_scores)
{
    vocabulary *v = new_scored();
    v->scores--;
    expect_refused(v, "it has 264 tokens, but scores of 263");
    v->scores = 0;
    expect_refused(v, "it has no tokenizer.ggml.scores");
    v = new_scored();
    v->score[260] = INFINITY;
    expect_refused(v, "the score of token 260 is infinite or NaN; it must be finite");
    v->model = "rwkv";
    expect_refused(v, "its tokenizer is of the kind \"rwkv\", which is not supported; gpt2, llama, gemma4, "
                      "bert and t5 are");
}
END_TEST

/* -- Unigram -- */

enum { UINT8 = 0, INT8 = 1, UNUSED = 5 };

static vocabulary *new_unigram(void)
{
    static vocabulary v;
    v = (vocabulary){.model = "t5", .pre = "default", .merges_spaces = true};
    add(&v, "<pad>", CONTROL, 0);
    add(&v, "</s>", CONTROL, 0);
    add(&v, "<unk>", UNKNOWN, 0);
    add(&v, SPACE, NORMAL, -2);     /* 3 */
    add(&v, "a", NORMAL, -3);       /* 4 */
    add(&v, SPACE "a", NORMAL, -4); /* 5 */
    add(&v, "ab", NORMAL, -5);      /* 6 */
    add(&v, "b", UNUSED, -20);      /* 7 */
    add(&v, "xy", USER_DEFINED, 5); /* 8 */
    return &v;
}

START_TEST(unigram)
{
    vocabulary *v = new_unigram();
    th_tokenizer *t = read_vocabulary(v);
    expect_ids(t, "a", false, "5");
    expect_ids(t, "  a   ab ", false, "5 3 6"); /* one space before each word */
    expect_ids(t, "   ", false, "");
    expect_ids(t, "ab", false, "3 6");
    expect_ids(t, "a b", false, "5 3 7");  /* an unknown character would have the score -15 */
    expect_ids(t, "axya", false, "5 8 5"); /* found before the text is normalized */
    expect_ids(t, "qa\xe4\xb8\xad\xe4\xb8\xad", false, "3 2 4 2");
    th_text text = {0};
    ck_assert_int_eq(th_tokenizer_decode(t, (const int32_t[]){5, 3, 6}, 3, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "a ab");
    th_text_free(&text);
    const th_language_model_options tiny = {.vocabulary = 20, .length = 4, .width = 2, .heads = 1, .layers = 1};
    const th_status status = th_language_model_export_gguf(th_language_model_new(ctx, &tiny), in_folder("w.gguf"),
                                                           &(th_gguf_export_options){.tokenizer = t});
    expect_status(status, TH_ERROR_ARGUMENT, "is neither byte-level BPE, SentencePiece's BPE nor BERT's WordPiece");
}
END_TEST

/* A map of q to "a", and of qq to "b": the longest is taken. */
START_TEST(unigram_map)
{
    enum { ROOT = 0x100, FIRST = ROOT ^ 'q', SECOND = 0x200 ^ 'q', UNITS = 0x400 };
    static uint32_t map[2 + UNITS];
    map[0] = 4 * UNITS;
    uint32_t *unit = map + 1;
    unit[0] = ROOT << 10;
    unit[FIRST] = 'q' | 0x100 | (uint32_t)(FIRST ^ 0x200) << 10;
    unit[0x200] = 0x80000000u;
    unit[SECOND] = 'q' | 0x100 | (uint32_t)(SECOND ^ 0x300) << 10;
    unit[0x300] = 0x80000002u;
    memcpy(unit + UNITS, "a\0b", 4);
    vocabulary *v = new_unigram();
    v->map = (const unsigned char *)map;
    v->map_bytes = sizeof map;
    for (uint32_t kind = UINT8; kind <= INT8; kind++) {
        v->map_kind = kind;
        th_tokenizer *t = read_vocabulary(v);
        expect_ids(t, "q", false, "5");
        expect_ids(t, "aqq", false, "3 6");
        expect_ids(t, "a\xffz", false, "5 2"); /* a byte that is not UTF-8 is an unknown character */
    }
    v->map_bytes -= 5;
    expect_refused(v, "the precompiled_charsmap of its normalizer is truncated");
    v->map_kind = UINT32;
    v->map_bytes = 0;
    expect_refused(v, "\"tokenizer.ggml.precompiled_charsmap\" is not an array of bytes");
}
END_TEST

START_TEST(wrong_unigram)
{
    vocabulary *v = new_unigram();
    v->merges_spaces = false;
    expect_refused(v, "tokenizer.ggml.remove_extra_whitespaces is not true; only this is supported");
    v = new_unigram();
    v->score[4] = NAN;
    expect_refused(v, "the score of token 4 is infinite or NaN; it must be finite");
    v->scores = 0;
    expect_refused(v, "it has no tokenizer.ggml.scores");
}
END_TEST

/* -- merges of characters -- */

START_TEST(gemma4)
{
    vocabulary *v = new_scored();
    v->model = "gemma4";
    v->pre = NULL;
    v->scores = 0;
    add(v, "ab", NORMAL, 0);       /* 264 */
    add(v, SPACE "ab", NORMAL, 0); /* 265 */
    add(v, "\n\n", NORMAL, 0);     /* 266 */
    v->merge[0] = "a b";
    v->merge[1] = SPACE " ab";
    v->merge[2] = "\n \n";
    v->merges = 3;
    th_tokenizer *t = read_vocabulary(v);
    expect_ids(t, "ab ab", true, "1 264 265");
    expect_ids(t, "\n\n\nab", false, "266 263 264");
    expect_ids(t, "\xc3\xa9", false, "198 172");
}
END_TEST

/* -- tokenizers that are written -- */

/* Writes a tokenizer with a small model to w.gguf. */
static th_status export_tokenizer(const th_tokenizer *t)
{
    const th_language_model_options tiny = {
        .vocabulary = th_tokenizer_size(t) + 3, .length = 4, .width = 2, .heads = 1, .layers = 1};
    th_module *model = th_language_model_new(ctx, &tiny);
    ck_assert_msg(model != NULL, "%s", th_error_message(ctx));
    return th_language_model_export_gguf(model, in_folder("w.gguf"), &(th_gguf_export_options){.tokenizer = t});
}

/* Writes a tokenizer, and checks that the tokenizer of that file has the same tokens for random texts. */
static void expect_same_tokens_again(th_tokenizer *t)
{
    static const char *const pieces[] = {"a", "b", "c", " ", "\n", "\xc3\xa9", "<s>", "ab", "cc", "<|user|>"};
    unsigned random = 1;
    ck_assert_msg(export_tokenizer(t) == TH_OK, "%s", th_error_message(ctx));
    th_tokenizer *again = th_tokenizer_from_gguf(ctx, in_folder("w.gguf"));
    ck_assert_msg(again != NULL, "%s", th_error_message(ctx));
    ck_assert_int_eq(th_tokenizer_size(again), th_tokenizer_size(t));
    for (int trial = 0; trial < 300; trial++) {
        char text[400] = "";
        th_token_list here = {0}, there = {0};
        for (int i = 0; i < trial % 40; i++) {
            random = random * 1664525u + 1013904223u;
            strcat(text, pieces[(random >> 24) % 10]);
        }
        ck_assert_int_eq(th_tokenizer_encode_document(t, text, strlen(text), &here), TH_OK);
        ck_assert_int_eq(th_tokenizer_encode_document(again, text, strlen(text), &there), TH_OK);
        ck_assert_msg(here.count == there.count &&
                          (here.count == 0 || memcmp(here.token, there.token, here.count * sizeof *here.token) == 0),
                      "'%s'", text);
        th_token_list_free(&here);
        th_token_list_free(&there);
    }
}

START_TEST(scores_are_written)
{
    static const char *const tokens[] = {"aa", "aaa", "ab", "ba", "aba", SPACE "a", SPACE "ab", "bc", "abc"};
    for (int spaces = 0; spaces < 2; spaces++) {
        vocabulary *v = new_scored();
        v->no_space = spaces;
        for (int i = 0; i < 9; i++)
            add(v, tokens[i], NORMAL, -(float)(i % 4));
        add(v, "<|user|>", CONTROL, 0);
        add(v, "cc", USER_DEFINED, 0);
        expect_same_tokens_again(read_vocabulary(v));
    }
}
END_TEST

START_TEST(merges_of_characters_are_written)
{
    vocabulary *v = new_scored();
    v->model = "gemma4";
    v->pre = NULL;
    v->scores = 0;
    add(v, "ab", NORMAL, 0);
    add(v, SPACE "ab", NORMAL, 0);
    v->merge[0] = "a b";
    v->merge[1] = SPACE " ab";
    v->merges = 2;
    expect_same_tokens_again(read_vocabulary(v));
}
END_TEST

/* Writes tokenizer.json as transformers converts it from SentencePiece, and loads it. */
static th_tokenizer *load_json(const char *merges, const char *normalizer, const char *pre_tokenizer)
{
    FILE *file = fopen(in_folder("tokenizer.json"), "wb");
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"single_word\": false, "
            "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}], \"normalizer\": %s, "
            "\"pre_tokenizer\": %s, \"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"BPE\", "
            "\"unk_token\": \"<unk>\", \"fuse_unk\": true, \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0",
            normalizer, pre_tokenizer);
    for (int i = 0; i < 256; i++)
        fprintf(file, ", \"<0x%02X>\": %d", (unsigned)i, i + 1);
    fputs(", \"" SPACE "\": 257, \"a\": 258, \"b\": 259, \"c\": 260, \"ab\": 261, \"" SPACE "a\": 262, "
          "\"" SPACE "ab\": 263, \"bc\": 264}, \"merges\": [",
          file);
    fprintf(file, "%s]}}", merges);
    ck_assert_int_eq(fclose(file), 0);
    th_tokenizer *t = th_tokenizer_load(ctx, in_folder("tokenizer.json"));
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    return t;
}

#define REPLACE "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" SPACE "\"}"
#define PREPEND                                                                                                        \
    "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"" SPACE "\"}, " REPLACE "]}"

START_TEST(merges_become_scores)
{
    static const char all[] = "\"a b\", \"" SPACE " a\", \"" SPACE " ab\", \"" SPACE "a b\", \"b c\"";
    static const char split[] = "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": "
                                "\"MergedWithPrevious\", \"invert\": false}";
    static const char metaspace[] = "{\"type\": \"Metaspace\", \"replacement\": \"" SPACE "\", \"prepend_scheme\": "
                                    "\"never\", \"split\": false}";
    expect_same_tokens_again(load_json(all, PREPEND, "null"));
    expect_same_tokens_again(load_json(all, REPLACE, "null"));
    expect_same_tokens_again(load_json(all, REPLACE, split));
    expect_same_tokens_again(load_json(all, "null", metaspace));
    static const char *const inexpressible[] = {
        "\"a b\", \"" SPACE " a\", \"" SPACE " ab\", \"" SPACE "a b\"", /* b c is a token, but no merge */
        "\"a b\", \"" SPACE " a\", \"" SPACE " ab\", \"b c\", \"" SPACE "a b\"" /* a token has two ranks */};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(export_tokenizer(load_json(inexpressible[i], PREPEND, "null")), TH_ERROR_ARGUMENT);
        expect_error(TH_ERROR_ARGUMENT,
                     "the tokenizer has merges that SentencePiece's scores of tokens cannot express");
    }
    ck_assert_int_eq(export_tokenizer(load_json(all, "{\"type\": \"NFC\"}", "null")), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT,
                 "the tokenizer is neither byte-level BPE, SentencePiece's BPE nor BERT's WordPiece");
}
END_TEST

/* -- ways to split text -- */

typedef struct words {
    char text[200];
} words;

static th_status take_word(void *user, const char *word, size_t bytes)
{
    words *w = user;
    const size_t at = strlen(w->text);
    snprintf(w->text + at, sizeof w->text - at, at ? "|%.*s" : "%.*s", (int)bytes, word);
    return TH_OK;
}

static char byte_characters[256][4];

/* Returns a vocabulary of all bytes, in the alphabet of byte-level BPE. */
static vocabulary *new_bytes(const char *pre)
{
    static vocabulary v;
    v = (vocabulary){.model = "gpt2", .pre = pre, .merges = 1};
    int other = 0x100;
    for (int i = 0; i < 256; i++) {
        const bool visible = (i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || i >= 0xae;
        const int code = visible ? i : other++;
        snprintf(byte_characters[i], sizeof byte_characters[i], code < 0x80 ? "%c" : "%c%c",
                 code < 0x80 ? code : 0xc0 | code >> 6, 0x80 | (code & 0x3f));
        add(&v, byte_characters[i], NORMAL, 0);
    }
    v.scores = 0;
    add(&v, "ab", NORMAL, 0);
    v.merge[0] = "a b";
    return &v;
}

START_TEST(splits)
{
    static const struct {
        const char *pre, *text, *words; /* pre: NULL: the file has none */
    } cases[] = {
        {NULL, "it's $5,  12345 x<=y", "it|'|s| |$|5|,| | |123|45| x|<=|y"},
        {"default", "it's $5,  12345 x<=y", "it|'|s| |$|5|,| | |123|45| x|<=|y"},
        {"gpt-2", "it's $5,  12345 x<=y", "it|'s| $|5|,| | 12345| x|<=|y"},
        {"mpt", "it's 12345", "it|'s| 12345"},
        {"olmo", "12345", "12345"},
        {"falcon", "it's `5,  12345 x<=y", "it|'|s| |`|5|,| | |123|45| x|<=|y"},
        {"starcoder", "v 12", "v| |1|2"},
        {"refact", "v 12", "v| |1|2"},
        {"command-r", "v 12", "v| |1|2"},
        {"llama3", "it'S 12345.\n\n", "it|'S| |123|45|.\n\n"},
        {"glm4", "12345", "123|45"},
        {"deepseek-r1-qwen", "123.\n", "1|2|3|.\n"},
        {"tekken", "HTTPServer aB 12/\n \xc3\x89t\xc3\xa9", "HTTPServer| a|B| |1|2|/\n| \xc3\x89t\xc3\xa9"},
        {"gpt-4o", "it's WON'T 1234", "it's| WON'T| |123|4"},
        {"llama4", "aB 1234", "a|B| |123|4"},
        {"deepseek-llm", "a b,\n  12 \xe4\xb8\xad\xe6\x96\x87!", "a| b|,|\n|  |12| |\xe4\xb8\xad\xe6\x96\x87|!"},
        {"deepseek-llm", "x  ", "x|  "},
        {"deepseek-llm", "\xe4\xb8\xad\xe3\x80\x80\xe4\xb8\xad", "\xe4\xb8\xad|\xe3\x80\x80|\xe4\xb8\xad"},
        {"deepseek-coder", "a, b12\n\n", "a|,| b|1|2|\n|\n"},
        {"deepseek-v3", "12345 .ab\n", "123|45| .|ab|\n"},
        {"qwen35", "e\xcc\x81t 12", "e\xcc\x81t| |1|2"},
        {"seed-coder", "it's 12.\n", "it|'s| |1|2|.|\n"},
        {"minicpm5", "it's 12345.\n", "it|'s| |123|45|.\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_tokenizer *t = read_vocabulary(new_bytes(cases[i].pre));
        words found = {""};
        const th_word_sink sink = {take_word, &found};
        const th_piece text = {.text = cases[i].text, .bytes = strlen(cases[i].text)};
        ck_assert_int_eq(th_split_text(&t->split, ctx, "test", text, sink), TH_OK);
        ck_assert_msg(strcmp(found.text, cases[i].words) == 0, "%s: '%s' instead of '%s'",
                      cases[i].pre ? cases[i].pre : "none", found.text, cases[i].words);
        th_tokenizer_free(t);
    }
    expect_refused(new_bytes("new"), "tokenizer.ggml.pre \"new\" is not supported; gpt-2, llama-bpe, ");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf_tokenizers", setup, teardown);
    tcase_add_test(tests, scores_choose_the_merge);
    tcase_add_test(tests, merges_equal_a_plain_search);
    tcase_add_test(tests, scores_and_text);
    tcase_add_test(tests, wrong_scores);
    tcase_add_test(tests, unigram);
    tcase_add_test(tests, unigram_map);
    tcase_add_test(tests, wrong_unigram);
    tcase_add_test(tests, gemma4);
    tcase_add_test(tests, scores_are_written);
    tcase_add_test(tests, merges_of_characters_are_written);
    tcase_add_test(tests, merges_become_scores);
    tcase_add_test(tests, splits);
    return run_suites();
}
