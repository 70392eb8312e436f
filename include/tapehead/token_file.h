/* Texts as files of tokens, larger than memory if need be, and the windows of them that a language model is trained on.
 *
 *     th_token_file *file = th_token_file_open(ctx, "text.tokens", NULL);
 *     th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 64, .shuffle = true, .seed = 1});
 *     th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(12, 64)), *targets = th_empty(ctx, TH_INT32, ...);
 *     ...
 *     if (th_windows_next(windows, tokens, targets)) ...
 *     th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
 *
 * Everything here belongs to the context, which frees what is left at its end. B batch, T tokens in a window. */
#ifndef TAPEHEAD_TOKEN_FILE_H
#define TAPEHEAD_TOKEN_FILE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- writing --
 * All numbers are little endian. A header of 64 bytes:
 *
 *      0  "TAPETOKS"
 *      8  uint32 1, the version            12  uint32 bytes of a token: 2 for up to 65536 kinds, else 4
 *     16  uint64 number of tokens          24  uint64 kinds of tokens (the vocabulary's size)
 *     32  zeros                            60  uint32 CRC-32C of the 60 bytes before
 *
 * then the tokens, then a uint32 CRC-32C of each MiB of them (the last one is shorter). */
typedef struct th_token_writer th_token_writer;

/* A file of tokens in [0, vocabulary), vocabulary <= 2^31. It appears at path when it is closed, and is complete then:
 * until that, and after an error or a crash, what was there stays. NULL with the error stored. */
TH_API th_token_writer *th_token_writer_open(th_context *ctx, const char *path, int64_t vocabulary);
/* count more tokens, which may be any number of calls: only 4 bytes for each MiB of the file are kept in memory.
 * TH_ERROR_INDEX for a token outside the vocabulary, TH_ERROR_FILE for a full disk; then nothing will be at path. */
TH_API th_status th_token_writer_append(th_token_writer *writer, const int32_t *tokens, int64_t count) TH_MUST_CHECK;
/* Completes the file, on the disk too, and frees the writer, also when it fails. */
TH_API th_status th_token_writer_close(th_token_writer *writer) TH_MUST_CHECK;
/* Throws away what was written. NULL is fine. */
TH_API void th_token_writer_free(th_token_writer *writer);

/* -- reading -- */
typedef struct th_token_file th_token_file;

typedef struct th_token_file_options {
    bool check_when_used; /* each MiB is held against its checksum when first used, instead of all of them at opening:
                             for files that take long to read */
} th_token_file_options;

/* Maps the file into memory, where the system keeps as much of it as there is room for. Whatever is damaged is
 * TH_ERROR_FILE with a sentence: another header, another size than the header says, a block of tokens that does not
 * have its checksum or holds what is no token. options may be NULL. (Writing to a file, or cutting it, while it is
 * mapped is not caught; replacing it is fine.) */
TH_API th_token_file *th_token_file_open(th_context *ctx, const char *path, const th_token_file_options *options);
/* 0 for NULL. */
TH_API int64_t th_token_file_count(const th_token_file *file);
TH_API int64_t th_token_file_vocabulary(const th_token_file *file);
/* Tokens begin .. begin + count into tokens [count]. TH_ERROR_INDEX outside the file. */
TH_API th_status th_token_file_read(th_token_file *file, int64_t begin, int64_t count, int32_t *tokens) TH_MUST_CHECK;
/* NULL is fine. Windows of the file go on working: they keep it open. */
TH_API void th_token_file_close(th_token_file *file);

/* -- windows --
 * A window is T tokens and, as targets, the T that follow each of them: tokens w .. w + T and w + 1 .. w + T + 1. The
 * windows of an epoch lie side by side, so that every target is met once in it.
 *
 * In order (for measuring) they begin with the first token; the last one may be short, and what it lacks are tokens 0
 * with TH_NO_TARGET, which a loss ignores: every token but the first is a target exactly once. An epoch ends with a
 * batch; the rows that are left then are such padding throughout.
 *
 * Shuffled (for training), each epoch begins at another offset of less than T, so that no token always stands in the
 * same place, and leaves out what is less than a window at its ends. Its order is a pseudo-random permutation, a
 * function of (seed, epoch) that takes no memory: a Feistel network whose rounds are Philox, walked until it falls
 * among the windows (Black & Rogaway 2002). A batch goes on into the next epoch: it is always full. */
typedef struct th_windows th_windows;
enum { TH_NO_TARGET = -100 }; /* th_cross_entropy_options: TH_IGNORE(TH_NO_TARGET) */

typedef struct th_windows_options {
    int64_t begin, end; /* of the file's tokens; end 0: all from begin on */
    int64_t length;     /* T; always given */
    bool shuffle;       /* else in order */
    uint64_t seed;      /* of the shuffled order */
} th_windows_options;

/* TH_ERROR_ARGUMENT for fewer tokens than a window and its last target take (shuffled), or than two (in order). */
TH_API th_windows *th_windows_new(th_token_file *file, const th_windows_options *options);
/* The next B windows into tokens (B, T) and targets (B, T), int32 and contiguous, to use in one step after another. */
TH_API th_status th_windows_next(th_windows *windows, th_tensor *tokens, th_tensor *targets) TH_MUST_CHECK;
/* How many windows the epoch has that the next one belongs to; how many targets (without padding). 0 for NULL. */
TH_API int64_t th_windows_count(const th_windows *windows);
TH_API int64_t th_windows_targets(const th_windows *windows);

/* Where the next window stands: what a checkpoint keeps, and what continues the order in its middle. */
typedef struct th_windows_position {
    int64_t epoch, index;
} th_windows_position;
TH_API th_windows_position th_windows_where(const th_windows *windows);
/* TH_ERROR_ARGUMENT for an epoch outside 0 to INT64_MAX / 2, or an index outside 0 to the number of its windows. */
TH_API th_status th_windows_go_to(th_windows *windows, th_windows_position position) TH_MUST_CHECK;
/* NULL is fine. */
TH_API void th_windows_free(th_windows *windows);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_token_writer_open(...) TH_AT_POINTER(th_token_writer, th_token_writer_open(__VA_ARGS__))
#define th_token_writer_append(...) TH_AT_STATUS(th_token_writer_append(__VA_ARGS__))
#define th_token_writer_close(...) TH_AT_STATUS(th_token_writer_close(__VA_ARGS__))
#define th_token_file_open(...) TH_AT_POINTER(th_token_file, th_token_file_open(__VA_ARGS__))
#define th_token_file_read(...) TH_AT_STATUS(th_token_file_read(__VA_ARGS__))
#define th_windows_new(...) TH_AT_POINTER(th_windows, th_windows_new(__VA_ARGS__))
#define th_windows_next(...) TH_AT_STATUS(th_windows_next(__VA_ARGS__))
#define th_windows_go_to(...) TH_AT_STATUS(th_windows_go_to(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
