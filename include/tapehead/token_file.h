/* Texts as files of tokens, which may be larger than memory, and windows of them to train a language model.
 *
 *     th_token_file *file = th_token_file_open(ctx, "text.tokens", NULL);
 *     th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 64, .shuffle = true, .seed = 1});
 *     th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(12, 64)), *targets = th_empty(ctx, TH_INT32, ...);
 *     ...
 *     if (th_windows_next(windows, tokens, targets)) ...
 *     th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
 *
 * All objects belong to the context, which frees them at its end. B is the batch, T the tokens in a window. */
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
 * Then the tokens, then a uint32 CRC-32C of each MiB of tokens (the last block is shorter).
 *
 * A file with marks is version 2. There a token always takes 4 bytes: its number in bits 0 to 29, TH_TOKEN_BEGINS in
 * bit 30 and TH_TOKEN_GIVEN in bit 31. */
typedef struct th_token_writer th_token_writer;

/* Marks of a token, which are added. */
enum {
    TH_TOKEN_BEGINS = 1, /* it is the first token of a document, such as a conversation */
    TH_TOKEN_GIVEN = 2   /* it is never a target: the loss does not count it. For example, it belongs to a prompt */
};

/* Begins a file of tokens in [0, vocabulary), vocabulary <= 2^31. The file appears at path when it is closed and
 * complete. Until then, and after an error or a crash, the old file stays. Returns NULL with the error pending. */
TH_API th_token_writer *th_token_writer_open(th_context *ctx, const char *path, int64_t vocabulary);
/* Begins a file with marks; otherwise as th_token_writer_open. vocabulary <= 2^30. */
TH_API th_token_writer *th_token_writer_open_marked(th_context *ctx, const char *path, int64_t vocabulary);
/* Appends `count` tokens. It may be called any number of times: memory grows by 4 bytes for each MiB of the file only.
 * TH_ERROR_INDEX for a token outside the vocabulary, TH_ERROR_FILE for a full disk. After an error nothing will appear
 * at path. */
TH_API th_status th_token_writer_append(th_token_writer *writer, const int32_t *tokens, int64_t count) TH_MUST_CHECK;
/* Appends `count` tokens with their marks [count], sums of TH_TOKEN_BEGINS and TH_TOKEN_GIVEN; NULL: no marks.
 * TH_ERROR_STATE if the file has no marks, TH_ERROR_VALUE for an unknown mark. */
TH_API th_status th_token_writer_append_marked(th_token_writer *writer, const int32_t *tokens,
                                               const unsigned char *marks, int64_t count) TH_MUST_CHECK;
/* Completes the file, waits until the disk has it, and frees the writer, even after an error. */
TH_API th_status th_token_writer_close(th_token_writer *writer) TH_MUST_CHECK;
/* Discards the unfinished file and frees the writer; NULL is allowed. */
TH_API void th_token_writer_free(th_token_writer *writer);

/* -- reading -- */
typedef struct th_token_file th_token_file;

typedef struct th_token_file_options {
    /* Verifies the checksum of each MiB when it is first used, instead of all when the file is opened. For files that
     * take long to read. */
    bool check_when_used;
} th_token_file_options;

/* Maps the file into memory; the system keeps as much of it there as fits. TH_ERROR_FILE names the damage: a wrong
 * header, a size that differs from the header's, or a block of tokens with a wrong checksum or a token outside the
 * vocabulary. Replacing the file while it is mapped is safe. Writing to it or truncating it is not detected. options
 * may be NULL. Returns NULL with the error pending. */
TH_API th_token_file *th_token_file_open(th_context *ctx, const char *path, const th_token_file_options *options);
/* Returns the number of tokens; 0 for NULL. */
TH_API int64_t th_token_file_count(const th_token_file *file);
/* Returns the vocabulary's size; 0 for NULL. */
TH_API int64_t th_token_file_vocabulary(const th_token_file *file);
/* Returns whether the file has marks. */
TH_API bool th_token_file_has_marks(const th_token_file *file);
/* Copies the tokens begin .. begin + count into tokens [count]. TH_ERROR_INDEX outside the file. */
TH_API th_status th_token_file_read(th_token_file *file, int64_t begin, int64_t count, int32_t *tokens) TH_MUST_CHECK;
/* Copies the marks of the tokens begin .. begin + count into marks [count]; all are 0 in a file without marks.
 * TH_ERROR_INDEX outside the file. */
TH_API th_status th_token_file_read_marks(th_token_file *file, int64_t begin, int64_t count,
                                          unsigned char *marks) TH_MUST_CHECK;
/* Closes the file; NULL is allowed. Windows of the file stay usable: they keep it open. */
TH_API void th_token_file_close(th_token_file *file);

/* -- windows --
 * A window is T tokens and, as targets, the T tokens that follow each of them: tokens w .. w + T and w + 1 .. w + T +
 * 1. The windows of an epoch are adjacent, so every target occurs once in it.
 *
 * In order (for measuring), windows begin with the first token. Every token except the first is a target exactly once.
 * The last window may be short: its missing tokens are 0, with the target TH_NO_TARGET, which a loss ignores. An epoch
 * ends with a batch, whose remaining rows are such padding, too.
 *
 * Shuffled (for training), each epoch begins at another offset below T, so that a token's position in its window
 * changes. It leaves out less than a window at each end. The order is a pseudo-random permutation, a function of
 * (seed, epoch) that takes no memory: a Feistel network whose rounds are Philox, applied repeatedly until the result
 * is the index of a window (Black & Rogaway 2002). A batch continues in the next epoch: it is always full.
 *
 * Marks: a token with TH_TOKEN_GIVEN or TH_TOKEN_BEGINS is never a target. Its place in targets has TH_NO_TARGET.
 *
 * Packed: a window contains whole documents, as long as they fit. A document begins at a token with TH_TOKEN_BEGINS. A
 * document of n tokens takes n - 1 places, because its last token is only a target. A document that is longer than a
 * window is divided into windows of its own, and its rest. The documents are placed from the longest to the shortest,
 * each into the fullest window with enough space (best-fit decreasing; Ding et al. 2024). The windows are the same in
 * each epoch; shuffled, their order changes. Documents without a target are left out. th_windows_next_packed also
 * returns where each document begins, so that attention does not cross documents. */
typedef struct th_windows th_windows;
enum { TH_NO_TARGET = -100 }; /* th_cross_entropy_options: TH_IGNORE(TH_NO_TARGET) */

typedef struct th_windows_options {
    int64_t begin, end; /* of the file's tokens; end 0: all tokens from begin */
    int64_t length;     /* T; required */
    bool shuffle;       /* otherwise in order */
    uint64_t seed;      /* of the shuffled order */
    bool pack;          /* whole documents; the file must have marks */
} th_windows_options;

/* Creates windows of a file. TH_ERROR_ARGUMENT if there are fewer tokens than a window and its last target take
 * (shuffled), or fewer than two (in order). Returns NULL with the error pending. */
TH_API th_windows *th_windows_new(th_token_file *file, const th_windows_options *options);
/* Writes the next B windows into tokens (B, T) and targets (B, T), which are int32 and contiguous. A program may use
 * the same two tensors in every step. */
TH_API th_status th_windows_next(th_windows *windows, th_tensor *tokens, th_tensor *targets) TH_MUST_CHECK;
/* As th_windows_next, and writes to starts (B, T), int32 and contiguous, the place in the window where the document of
 * each token begins. In windows that are not packed that is place 0, or the last token before it with TH_TOKEN_BEGINS.
 * A place without a token is a document of its own. th_language_model_packed_loss takes the three tensors. */
TH_API th_status th_windows_next_packed(th_windows *windows, th_tensor *tokens, th_tensor *targets,
                                        th_tensor *starts) TH_MUST_CHECK;
/* Returns the number of windows in the epoch of the next window; 0 for NULL. */
TH_API int64_t th_windows_count(const th_windows *windows);
/* Returns the number of targets in that epoch, without padding and without tokens whose marks exclude them; 0 for
 * NULL. The marks are read when the windows are created. */
TH_API int64_t th_windows_targets(const th_windows *windows);

/* The position of the next window. A checkpoint saves it; th_windows_go_to continues there, also inside an epoch. */
typedef struct th_windows_position {
    int64_t epoch, index;
} th_windows_position;
/* Returns the position of the next window. */
TH_API th_windows_position th_windows_where(const th_windows *windows);
/* Continues at a position. TH_ERROR_ARGUMENT if its epoch is outside 0 to INT64_MAX / 2, or its index outside 0 to the
 * number of the epoch's windows. */
TH_API th_status th_windows_go_to(th_windows *windows, th_windows_position position) TH_MUST_CHECK;
/* Moves on as th_windows_next does with a batch of `count` windows, but reads nothing: shuffled, into later epochs; in
 * order, at most to the end of the epoch. 0 changes nothing. TH_ERROR_ARGUMENT if count is negative.
 *
 * Processes that share a batch skip the windows of the others (tapehead/group.h). */
TH_API th_status th_windows_skip(th_windows *windows, int64_t count) TH_MUST_CHECK;
/* Frees the windows; NULL is allowed. */
TH_API void th_windows_free(th_windows *windows);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_token_writer_open(...) TH_AT_POINTER(th_token_writer, th_token_writer_open(__VA_ARGS__))
#define th_token_writer_open_marked(...) TH_AT_POINTER(th_token_writer, th_token_writer_open_marked(__VA_ARGS__))
#define th_token_writer_append_marked(...) TH_AT_STATUS(th_token_writer_append_marked(__VA_ARGS__))
#define th_token_writer_append(...) TH_AT_STATUS(th_token_writer_append(__VA_ARGS__))
#define th_token_writer_close(...) TH_AT_STATUS(th_token_writer_close(__VA_ARGS__))
#define th_token_file_open(...) TH_AT_POINTER(th_token_file, th_token_file_open(__VA_ARGS__))
#define th_token_file_read(...) TH_AT_STATUS(th_token_file_read(__VA_ARGS__))
#define th_token_file_read_marks(...) TH_AT_STATUS(th_token_file_read_marks(__VA_ARGS__))
#define th_windows_new(...) TH_AT_POINTER(th_windows, th_windows_new(__VA_ARGS__))
#define th_windows_next(...) TH_AT_STATUS(th_windows_next(__VA_ARGS__))
#define th_windows_next_packed(...) TH_AT_STATUS(th_windows_next_packed(__VA_ARGS__))
#define th_windows_go_to(...) TH_AT_STATUS(th_windows_go_to(__VA_ARGS__))
#define th_windows_skip(...) TH_AT_STATUS(th_windows_skip(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
