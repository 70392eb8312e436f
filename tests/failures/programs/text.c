/* Programs about tokenizers, token files and windows of them. */
#include "subjects.h"

#include <string.h>

static const char text[] =
    "The low lower lowest newer newest wide wider widest caf\xc3\xa9 12345 \xf0\x9f\x98\x80 <|end|> "
    "it's low; the newest low is lower than the widest new low.\n";
enum { BYTES = sizeof text - 1 };

/* Adds the tokens of the text and the text of the tokens to the checksum. */
static th_status there_and_back(program_run *r, th_tokenizer *t, const char *words, size_t bytes)
{
    th_token_list tokens = {0};
    th_text back = {0};
    th_text_stream stream = {.count = 0};
    th_status status = th_tokenizer_encode(t, words, bytes, &tokens);
    if (status == TH_OK)
        status = th_tokenizer_encode_document(t, words, bytes, &tokens);
    if (status == TH_OK)
        status = th_tokenizer_decode(t, tokens.token, tokens.count, &back);
    for (size_t i = 0; i + 1 < tokens.count && status == TH_OK; i++)
        status = th_tokenizer_write(t, &tokens.token[i], 1, &stream, r->out);
    if (status == TH_OK)
        status = th_tokenizer_write_end(t, &stream, r->out);
    th_stop_stream until = {.strings = (const char *const[]){"@@"}, .count = 1};
    if (status == TH_OK)
        status = th_tokenizer_write_until(t, tokens.token, tokens.count, &until, r->out);
    if (status == TH_OK)
        status = th_tokenizer_write_until_end(t, &until, r->out);
    if (status == TH_OK) {
        add_bytes(r, tokens.token, tokens.count * sizeof *tokens.token);
        add_bytes(r, back.bytes, back.count);
        add_output(r);
    }
    th_token_list_free(&tokens);
    th_text_free(&back);
    return status;
}

/* A batch of texts, and one of words. */
static th_status batches_made(program_run *r, th_tokenizer *t)
{
    static const char *const words[] = {"the", "lowest", "new"};
    static const int64_t begin[] = {0, 2, 3};
    th_text_batch batch;
    TRY(th_text_batch_make(t, words, 3, 4, &batch));
    add_tensor(r, batch.tokens);
    add_tensor(r, batch.lengths);
    TRY(th_text_batch_make_words(t, words, begin, 2, 8, &batch));
    add_tensor(r, batch.words);
    th_text_windows windows;
    th_status status = th_text_batch_make_pairs(t, words, 1, 8, &batch);
    if (status == TH_OK) {
        status = th_text_windows_make(t, words, 1, 8, 1, &windows);
        if (status == TH_OK)
            add_tensor(r, windows.end);
    }
    if (status == TH_ERROR_STATE) /* bytes have no template for pairs */
        th_error_clear(r->ctx);
    return status == TH_ERROR_STATE ? TH_OK : status;
}

static th_status add_special(program_run *r, th_tokenizer *t)
{
    size_t bytes = 0;
    const int64_t id = th_tokenizer_add(t, "<|end|>");
    if (id < 0)
        return th_error_code(r->ctx);
    const char *content = th_tokenizer_bytes(t, id, &bytes);
    add_bytes(r, content, bytes);
    add_number(r, (double)(th_tokenizer_size(t) * 1000 + id));
    add_number(r, th_tokenizer_is_special(t, id) + 2 * (th_tokenizer_find(t, "<|end|>") == id));
    add_number(r, (th_tokenizer_truncation(t) != NULL) + 2 * (th_tokenizer_padding(t) != NULL));
    return TH_OK;
}

/* Steps make their tokenizers and free them, so a repeated step begins as the first attempt did. */
static th_status bytes_and_characters(program_run *r)
{
    th_tokenizer *bytes = th_tokenizer_bytes_new(r->ctx);
    if (bytes == NULL)
        return th_error_code(r->ctx);
    TRY(add_special(r, bytes));
    TRY(there_and_back(r, bytes, text, BYTES));
    TRY(batches_made(r, bytes));
    TRY(th_tokenizer_save(bytes, in_folder(r, "bytes")));
    th_tokenizer_free(bytes);
    th_tokenizer *characters = th_tokenizer_characters_new(r->ctx, text, BYTES);
    if (characters == NULL)
        return th_error_code(r->ctx);
    TRY(there_and_back(r, characters, "newest low", 10));
    TRY(th_tokenizer_save(characters, in_folder(r, "characters")));
    add_file(r, in_folder(r, "characters/tokenizer.json"));
    th_tokenizer_free(characters);
    return th_error_code(r->ctx);
}

const program simple_tokenizers = {.name = "simple_tokenizers", .step = {bytes_and_characters}};

static th_status trained(program_run *r)
{
    static const char *const specials[] = {"<|end|>"};
    const th_bpe_options options = {.vocabulary = 275, .specials = specials, .n_specials = 1};
    r->tokenizer = th_tokenizer_train(r->ctx, text, BYTES, &options);
    if (r->tokenizer == NULL)
        return th_error_code(r->ctx);
    add_number(r, (double)th_tokenizer_size(r->tokenizer));
    return there_and_back(r, r->tokenizer, text, BYTES);
}

static th_status saved(program_run *r)
{
    TRY(th_tokenizer_save(r->tokenizer, in_folder(r, "bpe")));
    add_file(r, in_folder(r, "bpe/tokenizer.json"));
    add_file(r, in_folder(r, "bpe/merges.txt"));
    return th_error_code(r->ctx);
}

static th_status word_piece_trained(program_run *r)
{
    th_tokenizer *t =
        th_tokenizer_train_word_piece(r->ctx, text, BYTES, &(th_word_piece_options){.vocabulary = 100, .cased = true});
    if (t == NULL)
        return th_error_code(r->ctx);
    add_number(r, (double)th_tokenizer_size(t));
    const th_status status = there_and_back(r, t, "newest low", 10);
    th_tokenizer_free(t);
    return status;
}

const program trained_tokenizer = {.name = "trained_tokenizer", .step = {trained, saved, word_piece_trained}};

/* Loads a tokenizer, uses it and frees it. */
static th_status loaded(program_run *r, const char *path)
{
    th_tokenizer *t = th_tokenizer_load(r->ctx, path);
    if (t == NULL)
        return th_error_code(r->ctx);
    th_status status = there_and_back(r, t, text, BYTES);
    if (status == TH_OK)
        status = add_special(r, t);
    if (status == TH_OK)
        status = there_and_back(r, t, text, BYTES);
    th_tokenizer_free(t);
    return status;
}

static th_status loaded_gpt2(program_run *r)
{
    return loaded(r, FIXTURES "/bpe/gpt2.json");
}

static th_status loaded_llama3(program_run *r)
{
    return loaded(r, FIXTURES "/bpe/llama3.json");
}

static th_status loaded_characters(program_run *r)
{
    th_tokenizer *t = th_tokenizer_load(r->ctx, FIXTURES "/bpe/characters.json");
    if (t == NULL)
        return th_error_code(r->ctx);
    const th_status status = there_and_back(r, t, "newest low", 10);
    th_tokenizer_free(t);
    return status;
}

static th_status loaded_word_piece(program_run *r)
{
    return loaded(r, FIXTURES "/bpe/bert.json");
}

const program loaded_tokenizer = {.name = "loaded_tokenizer", .step = {loaded_gpt2}};
const program loaded_document_tokenizer = {.name = "loaded_document_tokenizer",
                                           .step = {loaded_llama3, loaded_characters, loaded_word_piece}};

/* vocab.json and merges.txt, which the test before saved. */
static th_status merges_saved(program_run *r)
{
    const th_bpe_options options = {.vocabulary = 260};
    th_tokenizer *t = th_tokenizer_train(r->ctx, text, BYTES, &options);
    if (t == NULL)
        return th_error_code(r->ctx);
    const th_status status = th_tokenizer_save(t, in_folder(r, "merges"));
    th_tokenizer_free(t);
    return status;
}

static th_status merges_loaded(program_run *r)
{
    remove(in_folder(r, "merges/tokenizer.json"));
    return loaded(r, in_folder(r, "merges"));
}

const program merges_of_a_folder = {.name = "merges_of_a_folder", .step = {merges_saved, merges_loaded}};

/* -- token files -- */

enum { TOKENS = 100 };

static th_status tokens_written(program_run *r)
{
    int32_t token[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        token[i] = i * i % 50;
    th_token_writer *discarded = th_token_writer_open(r->ctx, in_folder(r, "discarded"), 50);
    th_token_writer *writer = th_token_writer_open(r->ctx, in_folder(r, "text.tokens"), 50);
    th_status status = th_error_code(r->ctx);
    for (int i = 0; i < 4 && status == TH_OK; i++)
        status = th_token_writer_append(writer, token + i * TOKENS / 4, TOKENS / 4);
    if (status == TH_OK)
        status = th_token_writer_append(discarded, token, 3);
    th_token_writer_free(discarded);
    if (status == TH_OK)
        return th_token_writer_close(writer);
    th_token_writer_free(writer);
    return status;
}

static th_status tokens_read(program_run *r)
{
    int32_t token[TOKENS];
    th_token_file *file =
        th_token_file_open(r->ctx, in_folder(r, "text.tokens"), &(th_token_file_options){.check_when_used = true});
    if (file == NULL)
        return th_error_code(r->ctx);
    const th_status status = th_token_file_read(file, 10, 20, token);
    add_bytes(r, token, status == TH_OK ? 20 * sizeof *token : 0);
    add_number(r, (double)(th_token_file_count(file) + 1000 * th_token_file_vocabulary(file)));
    th_token_file_close(file);
    return status;
}

static th_status windows_read(program_run *r, th_windows *windows)
{
    th_tensor *tokens = th_empty(r->ctx, TH_INT32, TH_SHAPE(3, 8)),
              *targets = th_empty(r->ctx, TH_INT32, TH_SHAPE(3, 8));
    TRY(th_error_code(r->ctx));
    for (int i = 0; i < 6; i++) {
        TRY(th_windows_next(windows, tokens, targets));
        add_tensor(r, tokens);
        add_tensor(r, targets);
    }
    const th_windows_position position = th_windows_where(windows);
    add_number(r, (double)(position.epoch * 1000 + position.index));
    add_number(r, (double)(th_windows_count(windows) * 1000 + th_windows_targets(windows)));
    if (th_windows_go_to(windows, (th_windows_position){1, 2}))
        return th_error_code(r->ctx);
    return th_windows_skip(windows, 2);
}

static th_status windows_shuffled(program_run *r)
{
    th_token_file *file = th_token_file_open(r->ctx, in_folder(r, "text.tokens"), NULL);
    if (file == NULL)
        return th_error_code(r->ctx);
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 8, .shuffle = true, .seed = 2});
    th_token_file_close(file);
    th_status status = windows ? windows_read(r, windows) : th_error_code(r->ctx);
    if (status == TH_OK)
        status = windows_read(r, windows);
    th_windows_free(windows);
    return status;
}

const program token_files = {.name = "token_files", .step = {tokens_written, tokens_read, windows_shuffled}};
