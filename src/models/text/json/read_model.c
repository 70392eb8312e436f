/* Reading vocabulary, merges and the model's options: see readers.h. */
#include "models/text/json/readers.h"

#include <errno.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"

const th_json_limits th_model_limits = {.bytes = 64 << 20, .depth = 16, .memory = 512 << 20};

static bool refuse(const th_json_source *source, const char *sentence)
{
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, sentence);
    return false;
}

/* -- vocabulary -- */

bool th_read_vocabulary(th_tokenizer *t, const th_json_source *source, const json_t *vocab)
{
    if (!json_is_object(vocab))
        return refuse(source, "its vocabulary is not an object");
    const size_t size = json_object_size(vocab);
    if (size > TH_MAX_TOKENS)
        return refuse(source, "its vocabulary has more than 4194304 tokens");
    const char **token = calloc(size + 1, sizeof *token);
    bool succeeded = token != NULL;
    const char *key;
    json_t *value;
    char quoted[TH_QUOTED];
    json_object_foreach ((json_t *)(uintptr_t)vocab, key, value) {
        const json_int_t id = json_integer_value(value);
        if (!succeeded)
            break;
        succeeded = json_is_integer(value) && id >= 0 && (size_t)id < size && token[id] == NULL;
        if (succeeded)
            token[id] = key;
        else
            th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                    "%.300s: the id of token '%s' is a duplicate, or outside 0 .. %zu (there are %zu tokens)",
                    source->name, th_quote(key, quoted), size - 1, size);
    }
    for (size_t i = 0; succeeded && i < size; i++)
        succeeded = th_tokenizer_add_model_token(t, token[i], strlen(token[i]));
    free((void *)token);
    if (succeeded)
        th_tokenizer_find_alphabet(t);
    return succeeded;
}

/* -- merges -- */

static bool find_id(const json_t *vocab, const char *token, int32_t *id)
{
    const json_t *value = json_object_get(vocab, token);
    *id = (int32_t)json_integer_value(value);
    return value != NULL;
}

static bool add_merge(th_tokenizer *t, const th_json_source *source, const json_t *vocab, const char *left,
                      const char *right)
{
    const size_t first = strlen(left), second = strlen(right);
    char *joined = malloc(first + second + 1);
    if (joined == NULL)
        return false;
    memcpy(joined, left, first);
    memcpy(joined + first, right, second + 1);
    th_merge merge;
    char quoted[2][TH_QUOTED];
    const bool known = find_id(vocab, left, &merge.left) && find_id(vocab, right, &merge.right) &&
                       find_id(vocab, joined, &merge.result);
    free(joined);
    if (!known) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                "%.300s: merge %zu, of '%s' and '%s', uses or makes a token that is not in the vocabulary",
                source->name, t->merges.count, th_quote(left, quoted[0]), th_quote(right, quoted[1]));
        return false;
    }
    if (t->merges.count == TH_MAX_MERGES)
        return refuse(source, "it has more than 8388608 merges");
    return th_tokenizer_add_merge(t, merge);
}

/* Adds a merge from a line "left right", which it cuts in two. Lines that begin with #version are ignored. */
static bool add_merge_line(th_tokenizer *t, const th_json_source *source, const json_t *vocab, char *line)
{
    if (strncmp(line, "#version", 8) == 0)
        return true;
    char *space = strchr(line, ' ');
    char quoted[TH_QUOTED];
    if (space == NULL || strchr(space + 1, ' ')) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                "%.300s: merge %zu, '%s', is not two tokens with one space between them", source->name, t->merges.count,
                th_quote(line, quoted));
        return false;
    }
    *space = 0;
    return add_merge(t, source, vocab, line, space + 1);
}

static bool read_merge(th_tokenizer *t, const th_json_source *source, const json_t *vocab, const json_t *value)
{
    if (json_is_string(value)) {
        char *line = strdup(json_string_value(value));
        const bool added = line && add_merge_line(t, source, vocab, line);
        free(line);
        return added;
    }
    const char *left = json_string_value(json_array_get(value, 0)),
               *right = json_string_value(json_array_get(value, 1));
    if (left == NULL || right == NULL || json_array_size(value) != 2)
        return refuse(source, "a merge is neither \"left right\" nor [\"left\", \"right\"]");
    return add_merge(t, source, vocab, left, right);
}

static bool read_merges(th_tokenizer *t, const th_json_source *source, const json_t *vocab, const json_t *merges)
{
    size_t i;
    const json_t *element;
    if (!json_is_array(merges))
        return refuse(source, "its merges are not a list");
    json_array_foreach (merges, i, element) {
        if (json_typeof(element) != json_typeof(json_array_get(merges, 0)))
            return refuse(source, "its merges mix \"left right\" and [\"left\", \"right\"]");
        if (!read_merge(t, source, vocab, element))
            return false;
    }
    return true;
}

/* -- files of lines -- */

char *th_read_text_file(const th_json_source *source)
{
    int64_t size;
    const char *reason;
    char *text = NULL;
    FILE *file = th_regular_open(source->name, &size, &reason);
    if (file == NULL) {
        refuse(source, reason);
    } else if ((uint64_t)size > th_model_limits.bytes) {
        refuse(source, "it is larger than 64 MiB");
    } else if ((text = malloc((size_t)size + 1))) {
        const size_t bytes = th_stream_read(file, text, (size_t)size);
        const int read_error = errno;
        text[bytes] = 0;
        if (bytes != (size_t)size || strlen(text) != bytes) {
            refuse(source, bytes == (size_t)size ? "it contains a NUL"
                           : read_error          ? strerror(read_error)
                                                 : "it has become shorter");
            free(text);
            text = NULL;
        }
    }
    if (file)
        fclose(file);
    return text;
}

bool th_read_merges_file(th_tokenizer *t, const th_json_source *source, const json_t *vocab)
{
    char *text = th_read_text_file(source);
    bool succeeded = text != NULL;
    for (char *line = text; succeeded && *line;) {
        char *end = line + strcspn(line, "\n");
        char *const next = *end ? end + 1 : end;
        if (end > line && *end && end[-1] == '\r')
            end--;
        *end = 0;
        succeeded = add_merge_line(t, source, vocab, line);
        line = next;
    }
    free(text);
    return succeeded;
}

/* -- options -- */

/* Checks that a member is null, "" or missing. */
static bool check_empty(const th_json_source *source, const json_t *model, const char *key)
{
    const json_t *value = json_object_get(model, key);
    if (value == NULL || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0))
        return true;
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: its \"%s\" is not supported and must be null",
            source->name, key);
    return false;
}

static bool read_flag(const th_json_source *source, const json_t *model, const char *key, bool *value)
{
    const json_t *member = json_object_get(model, key);
    *value = false;
    return member == NULL || json_is_null(member) || th_json_boolean(source, model, key, value);
}

static bool read_word_piece(th_tokenizer *t, const th_json_source *source, const json_t *model)
{
    th_word_pieces *w = &t->pieces;
    const char *unknown, *prefix;
    const json_t *vocab = json_object_get(model, "vocab");
    if (t->byte_level)
        return refuse(source, "its model is WordPiece, but its pre_tokenizer is ByteLevel");
    if (!th_json_string(source, model, "unk_token", &unknown) ||
        !th_json_string(source, model, "continuing_subword_prefix", &prefix) ||
        !th_json_integer(source, model, "max_input_chars_per_word", 0, TH_MAX_PIECE_CHARACTERS, &w->max_characters))
        return false;
    if (strlen(prefix) >= TH_MAX_PIECE_PREFIX)
        return refuse(source, "its continuing_subword_prefix has more than 15 bytes");
    w->used = true;
    w->prefix_bytes = strlen(prefix);
    memcpy(w->prefix, prefix, w->prefix_bytes);
    if (!th_read_vocabulary(t, source, vocab))
        return false;
    for (size_t i = 0; i < t->vocabulary.size; i++)
        w->longest = t->vocabulary.entry[i].bytes > w->longest ? t->vocabulary.entry[i].bytes : w->longest;
    if (!find_id(vocab, unknown, &t->unknown))
        t->unknown = -1;
    return true;
}

/* Returns the type of a model. Older files do not name it: then, as in the reference, the members decide. */
static const char *type_of(const json_t *model)
{
    const json_t *type = json_object_get(model, "type");
    if (type)
        return json_string_value(type);
    if (json_is_array(json_object_get(model, "vocab")))
        return "Unigram";
    return json_object_get(model, "max_input_chars_per_word") && json_object_get(model, "merges") == NULL ? "WordPiece"
                                                                                                          : "BPE";
}

bool th_read_model(th_tokenizer *t, const th_json_source *source, const json_t *model, const th_token_scores *scores)
{
    const json_t *dropout = json_object_get(model, "dropout");
    const json_t *unknown = json_object_get(model, "unk_token"), *vocab = json_object_get(model, "vocab");
    const char *name = type_of(model);
    if (name && strcmp(name, "WordPiece") == 0)
        return read_word_piece(t, source, model);
    if (name && strcmp(name, "Unigram") == 0)
        return th_read_unigram(t, source, model, scores);
    if (name == NULL || strcmp(name, "BPE") != 0)
        return refuse(source, "its model is none of BPE, WordPiece and Unigram");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return refuse(source, "its model uses BPE dropout, which is not supported");
    if (unknown && !json_is_null(unknown) && !json_is_string(unknown))
        return refuse(source, "its unk_token is not a string");
    if (!check_empty(source, model, "continuing_subword_prefix") || !check_empty(source, model, "end_of_word_suffix") ||
        !read_flag(source, model, "fuse_unk", &t->fuse_unknown) ||
        !read_flag(source, model, "byte_fallback", &t->byte_fallback) ||
        !read_flag(source, model, "ignore_merges", &t->ignore_merges) || !th_read_vocabulary(t, source, vocab) ||
        !(scores ? th_tokenizer_add_score_merges(t, source->operation, scores->score)
                 : read_merges(t, source, vocab, json_object_get(model, "merges"))))
        return false;
    if (json_is_string(unknown) && !find_id(vocab, json_string_value(unknown), &t->unknown))
        t->unknown = -1; /* a character without a token is then an error in the reference, too */
    bool all_bytes = t->byte_level;
    for (int i = 0; i < 256; i++)
        all_bytes = all_bytes && t->byte_token[i] >= 0;
    if (t->byte_fallback && t->byte_level && !all_bytes)
        return refuse(source,
                      "its byte_fallback is not supported: the pre_tokenizer is ByteLevel, and a byte is missing");
    return t->byte_level || t->ignore_merges || t->merges.count == 0 ||
           th_seams_build(&t->seams, &t->merges, &t->vocabulary);
}
