/* Logs of training: one JSON object a line, and TensorBoard's event files. Every record is in its file when the call
 * returns, whole or not at all, so that a process killed at any moment leaves a file that can be read and gone on with.
 *
 *     th_json_log *log = th_json_log_open(ctx, "run/log.jsonl", NULL);
 *     th_event_log *events = th_event_log_open(ctx, "run", NULL);
 *     ...
 *     const th_log_field fields[] = {{"loss/train", loss}, {"learning_rate", rate}};
 *     if (th_json_log_write(log, step, fields, 2) || th_event_log_write(events, step, fields, 2)) ...
 *
 * Both belong to the context, which closes what is left open. */
#ifndef TAPEHEAD_LOG_H
#define TAPEHEAD_LOG_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* A number, or a text where one is given. */
typedef struct th_log_field {
    const char *name; /* "loss/train": TensorBoard groups by what is before the slash */
    double value;
    const char *text; /* UTF-8, ending in 0; not NULL: a text */
} th_log_field;

typedef struct th_log_options {
    bool resume;  /* goes on with what is there; otherwise the log begins anew */
    int64_t step; /* the last that counts: what is there of later steps was done in vain, and is cut off */
} th_log_options;

/* -- one JSON object a line: {"step": 10, "loss/train": 2.25, "sample": "To be"} --
 * A number that is not finite becomes null, and a byte that is not UTF-8 the replacement character. Control characters
 * are escaped. */
typedef struct th_json_log th_json_log;

/* Opens the log at path: creates it or, without resume, empties it. With resume it cuts the log at the first line with
 * a later step, or that is not a JSON object with a step (after a power failure). A symbolic link at path is
 * TH_ERROR_FILE, because it may lead anywhere. So is a file to resume whose first line is not a record: it is not a
 * log, and does not change. options may be NULL. */
TH_API th_json_log *th_json_log_open(th_context *ctx, const char *path, const th_log_options *options);
/* One line. TH_ERROR_FILE for a full disk: then nothing of it is in the file. */
TH_API th_status th_json_log_write(th_json_log *log, int64_t step, const th_log_field *fields, int count) TH_MUST_CHECK;
/* NULL is fine. */
TH_API void th_json_log_close(th_json_log *log);

/* What a log says of one name: a float64 tensor (2, N) with the ownership of any creation, its first row the steps, the
 * second the values (NaN for null), in the order of the lines; N is 0 when there are none. For th_picture_curves. */
TH_API th_tensor *th_json_log_series(th_context *ctx, const char *path, const char *name);

/* -- TensorBoard (tensorboard --logdir FOLDER) --
 * Numbers appear under Scalars (as float32), texts under Text. */
typedef struct th_event_log th_event_log;

/* Creates a file "events.out.tfevents...." in the folder, which must exist, and changes no other file. With resume, its
 * first record tells TensorBoard to forget later steps in other files of the folder. options may be NULL. */
TH_API th_event_log *th_event_log_open(th_context *ctx, const char *folder, const th_log_options *options);
TH_API th_status th_event_log_write(th_event_log *log, int64_t step, const th_log_field *fields,
                                    int count) TH_MUST_CHECK;
/* NULL is fine. */
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
