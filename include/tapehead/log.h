/* Logs of training: one JSON object on each line, and TensorBoard's event files. Every record is written completely
 * before the call returns, or not at all. So a process that is killed at any moment leaves a file that can be read and
 * continued.
 *
 *     th_json_log *log = th_json_log_open(ctx, "run/log.jsonl", NULL);
 *     th_event_log *events = th_event_log_open(ctx, "run", NULL);
 *     ...
 *     const th_log_field fields[] = {{"loss/train", loss}, {"learning_rate", rate}};
 *     if (th_json_log_write(log, step, fields, 2) || th_event_log_write(events, step, fields, 2)) ...
 *
 * Both belong to the context, which closes them at its end. */
#ifndef TAPEHEAD_LOG_H
#define TAPEHEAD_LOG_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* One value of a record: a text, or else a number. */
typedef struct th_log_field {
    const char *name; /* "loss/train": TensorBoard groups names by the part before the slash */
    double value;
    const char *text; /* UTF-8, ends with NUL; NULL: the field is a number */
} th_log_field;

typedef struct th_log_options {
    bool resume;  /* continues an existing log; otherwise the log begins anew */
    int64_t step; /* the last step of the run that is resumed; records of later steps are removed */
} th_log_options;

/* -- one JSON object on each line: {"step": 10, "loss/train": 2.25, "sample": "To be"} --
 * A number that is not finite becomes null. Bytes that are not UTF-8 become U+FFFD. Control characters are escaped. */
typedef struct th_json_log th_json_log;

/* Opens the log at path: creates it or, without resume, empties it. With resume it cuts the log at the first line that
 * has a later step or is not a JSON object with a step (after a power failure). A symbolic link at path is
 * TH_ERROR_FILE, because it may lead anywhere. So is a file to resume whose first line is not a record: it is not a
 * log, and does not change. options may be NULL. */
TH_API th_json_log *th_json_log_open(th_context *ctx, const char *path, const th_log_options *options);
/* Writes one line. fields has `count` entries. TH_ERROR_FILE if the disk is full; then the file has no part of the
 * line. */
TH_API th_status th_json_log_write(th_json_log *log, int64_t step, const th_log_field *fields, int count) TH_MUST_CHECK;
/* Closes the log; NULL is allowed. */
TH_API void th_json_log_close(th_json_log *log);

/* Returns the values of one name in a log, for th_picture_curves: a float64 tensor (2, N) with the ownership of
 * tensors from th_empty. The first row has the steps, the second the values (NaN for null), in the order of the lines.
 * N is 0 if no line has the name. Returns NULL with the error pending. */
TH_API th_tensor *th_json_log_series(th_context *ctx, const char *path, const char *name);

/* -- TensorBoard (tensorboard --logdir FOLDER) --
 * Numbers appear under Scalars (as float32), texts under Text. */
typedef struct th_event_log th_event_log;

/* Creates a file "events.out.tfevents...." in the folder, which must exist, and changes no other file. With resume, its
 * first record tells TensorBoard to forget later steps in other files of the folder. options may be NULL. */
TH_API th_event_log *th_event_log_open(th_context *ctx, const char *folder, const th_log_options *options);
/* Writes one record. fields has `count` entries. TH_ERROR_FILE if the disk is full; then the file has no part of it. */
TH_API th_status th_event_log_write(th_event_log *log, int64_t step, const th_log_field *fields,
                                    int count) TH_MUST_CHECK;
/* Closes the log; NULL is allowed. */
TH_API void th_event_log_close(th_event_log *log);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_json_log_open(...) TH_AT_POINTER(th_json_log, th_json_log_open(__VA_ARGS__))
#define th_json_log_write(...) TH_AT_STATUS(th_json_log_write(__VA_ARGS__))
#define th_json_log_series(...) TH_AT(th_json_log_series(__VA_ARGS__))
#define th_event_log_open(...) TH_AT_POINTER(th_event_log, th_event_log_open(__VA_ARGS__))
#define th_event_log_write(...) TH_AT_STATUS(th_event_log_write(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
