/* The profile: events as they happen, and their sums by operation and phase. It measures and counts; it changes nothing
 * that is measured, and a full store of events ends no training. */
#include "autograd/profile.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "tensor/checked.h"
#include "tensor/format.h"

enum { BUCKETS = 256, DEFAULT_EVENTS = 1 << 18 };

/* Bytes that are kept once however often they come: names, paths, files, shapes. */
typedef struct interned {
    struct interned *next; /* of the same bucket */
    size_t bytes;
    _Alignas(16) char content[];
} interned;

/* All calls of one operation in one phase. */
typedef struct tally {
    const char *operation;
    th_profile_phase phase;
    int64_t calls, nanoseconds, multiply_adds, bytes;
} tally;

typedef struct th_profile {
    int64_t begin, end; /* of th_profile_now */
    int64_t overhead;   /* nanoseconds that recording took */
    th_pool events, tallies;
    int64_t max_events, dropped;
    bool incomplete; /* a tally found no memory */
    th_bump content;
    interned *bucket[BUCKETS];
} th_profile;

/* Work beyond what can be counted, which shapes alone may have, stays at the largest number. */
static int64_t sum_of_work(int64_t a, int64_t b)
{
    int64_t sum;
    return th_checked_add(a, b, &sum) ? sum : INT64_MAX;
}

static const char *const phase_name[TH_PROFILE_PHASE_COUNT] = {"forward", "backward", "again", "step"};

const char *th_profile_phase_name(th_profile_phase phase)
{
    return phase >= 0 && phase < TH_PROFILE_PHASE_COUNT ? phase_name[phase] : "?";
}

int64_t th_profile_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* -- beginning and ending -- */

static void release(th_context *ctx, void *object)
{
    th_profile *p = object;
    th_pool_destroy(ctx, &p->events);
    th_pool_destroy(ctx, &p->tallies);
    th_bump_destroy(ctx, &p->content);
    th_release(ctx, p, sizeof *p);
    ctx->profile = NULL;
    ctx->profiling = false;
}

static th_profile *profile_of(th_context *ctx)
{
    if (ctx->profile)
        return ctx->profile;
    th_profile *p = th_allocate(ctx, sizeof *p);
    if (p == NULL || !th_attach(ctx, p, release)) {
        th_release(ctx, p, sizeof *p);
        th_fail_memory(ctx, "profile_begin", sizeof *p);
        return NULL;
    }
    *p = (th_profile){.begin = 0};
    th_pool_init(&p->events, sizeof(th_profile_event));
    th_pool_init(&p->tallies, sizeof(tally));
    ctx->profile = p;
    return p;
}

th_status(th_profile_begin)(th_context *ctx, const th_profile_options *options)
{
    if (!th_usable_context(ctx, "profile_begin"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    const int64_t max_events = options ? options->max_events : 0;
    if (ctx->profiling)
        return th_fail(ctx, TH_ERROR_STATE, "profile_begin", "a profile is running (th_profile_end)");
    if (max_events < -1)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "profile_begin", "max_events = %" PRId64 " is negative", max_events);
    th_profile *p = profile_of(ctx);
    if (p == NULL)
        return ctx->error;
    th_pool_reset(&p->events);
    th_pool_reset(&p->tallies);
    th_bump_reset(&p->content);
    memset(p->bucket, 0, sizeof p->bucket);
    p->max_events = max_events > 0 ? max_events : max_events < 0 ? 0 : (int64_t)DEFAULT_EVENTS;
    p->dropped = p->overhead = 0;
    p->incomplete = false;
    p->begin = p->end = th_profile_now();
    ctx->profiling = true;
    return TH_OK;
}

th_status(th_profile_end)(th_context *ctx)
{
    if (ctx == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, "profile_end", "the context is NULL");
    if (!ctx->profiling)
        return ctx->error ? ctx->error : th_fail(ctx, TH_ERROR_STATE, "profile_end", "no profile is running");
    th_profile *p = ctx->profile;
    p->end = th_profile_now();
    ctx->profiling = false;
    if (p->incomplete && !ctx->error)
        return th_fail(ctx, TH_ERROR_MEMORY, "profile_end", "memory ran out: the profile's table is not complete");
    return ctx->error;
}

void th_profile_free(th_context *ctx)
{
    if (ctx == NULL || ctx->profile == NULL)
        return;
    th_profile *p = ctx->profile;
    th_detach_object(ctx, p);
    release(ctx, p);
}

/* -- recording -- */

/* FNV-1a over words instead of bytes: this is done for every call. */
static uint64_t hash_of(const char *content, size_t bytes)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    while (bytes > 0) {
        uint64_t word = 0;
        const size_t taken = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, content, taken);
        hash = (hash ^ word) * UINT64_C(1099511628211);
        content += taken;
        bytes -= taken;
    }
    return hash ^ hash >> 32 ^ hash >> 48;
}

/* The profile's own copy of these bytes; NULL when memory is out. */
static const void *intern(th_context *ctx, const void *content, size_t bytes)
{
    th_profile *p = ctx->profile;
    interned **bucket = &p->bucket[hash_of(content, bytes) % BUCKETS];
    for (const interned *known = *bucket; known; known = known->next)
        if (known->bytes == bytes && memcmp(known->content, content, bytes) == 0)
            return known->content;
    interned *added = th_bump_take(ctx, &p->content, sizeof *added + bytes);
    if (added == NULL)
        return NULL;
    added->next = *bucket;
    added->bytes = bytes;
    memcpy(added->content, content, bytes);
    *bucket = added;
    return added->content;
}

static const char *intern_text(th_context *ctx, const char *text)
{
    return intern(ctx, text, strlen(text) + 1);
}

/* The tally of an operation (an interned name) in a phase, made when it is new; NULL when memory is out. */
static tally *tally_of(th_context *ctx, const char *operation, th_profile_phase phase)
{
    th_pool *tallies = &ctx->profile->tallies;
    for (int64_t i = 0; i < tallies->count; i++) {
        tally *known = th_pool_at(tallies, i);
        if (known->operation == operation && known->phase == phase)
            return known;
    }
    tally *added = th_pool_new(ctx, tallies);
    if (added)
        *added = (tally){.operation = operation, .phase = phase};
    return added;
}

static void add_shape(th_profile_event *event, th_profile_shape *shape, const th_array *array, bool output)
{
    th_profile_shape *added = &shape[event->n_shapes++];
    memset(added, 0, sizeof *added);
    added->given = array->given;
    added->output = output;
    if (!array->given)
        return;
    added->dtype = (uint8_t)array->dtype;
    added->ndim = (uint8_t)array->ndim;
    for (int d = 0; d < array->ndim; d++)
        added->size[d] = array->size[d];
    memcpy(added->axes, array->axes, strlen(array->axes));
}

enum { MAX_SHAPES = TH_MAX_INPUTS + TH_MAX_OUTPUTS };

/* Into shape[MAX_SHAPES]: the first inputs and all outputs. */
static void add_shapes(th_profile_event *event, th_profile_shape *shape, const th_call *call)
{
    for (int i = 0; i < call->n_inputs && i < TH_MAX_INPUTS; i++)
        add_shape(event, shape, &call->input[i], false);
    for (int i = 0; i < call->n_outputs; i++)
        add_shape(event, shape, &call->output[i], true);
}

/* Copies the event into the store, with all it points to. */
static void keep_event(th_context *ctx, const th_profile_event *event, const th_profile_shape *shape)
{
    th_profile *p = ctx->profile;
    th_profile_event own = *event;
    own.path = intern_text(ctx, event->path);
    own.file = event->file ? intern_text(ctx, event->file) : NULL;
    own.shape = event->n_shapes ? intern(ctx, shape, (size_t)event->n_shapes * sizeof *shape) : NULL;
    const bool whole = own.path && (own.file || !event->file) && (own.shape || !event->n_shapes);
    th_profile_event *kept = whole ? th_pool_new(ctx, &p->events) : NULL;
    if (kept)
        *kept = own;
    else
        p->dropped++;
}

/* Counts an event, and keeps it if there is room; shape: [event->n_shapes]. */
static void add_event(th_context *ctx, th_profile_event *event, const th_profile_shape *shape, int64_t bytes)
{
    th_profile *p = ctx->profile;
    event->operation = intern_text(ctx, event->operation);
    tally *sum = event->operation ? tally_of(ctx, event->operation, event->phase) : NULL;
    if (sum == NULL) {
        p->incomplete = true;
        p->dropped++;
        return;
    }
    sum->calls++;
    sum->nanoseconds += event->duration;
    sum->multiply_adds = sum_of_work(sum->multiply_adds, event->multiply_adds);
    sum->bytes += bytes;
    if (p->events.count < p->max_events)
        keep_event(ctx, event, shape);
    else
        p->dropped++;
}

/* An event whose name, phase, multiply-adds and place are known, of work from start to end. Counts as overhead what has
 * passed since. */
static void record(th_context *ctx, th_profile_event *event, const th_profile_shape *shape, int64_t bytes,
                   int64_t start, int64_t end)
{
    event->start = start - ctx->profile->begin;
    event->duration = ctx->options.shapes_only ? 0 : end - start; /* a run without data has no times of its own */
    add_event(ctx, event, shape, bytes);
    ctx->profile->overhead += th_profile_now() - end;
}

/* Where the call stands in the program: where it was recorded, if it was, else where it is being made. */
static void set_place(const th_context *ctx, const th_node *node, th_profile_event *event)
{
    const char *path = node ? node->path : ctx->path;
    event->path = path ? path : "";
    if (node) {
        event->file = node->file;
        event->line = node->line;
    } else {
        th_location(&event->file, &event->line);
    }
}

/* Bytes of the array's elements, those that repeat counted once; 0 without data. */
static int64_t bytes_of(const th_array *array)
{
    if (!array->given || array->data == NULL)
        return 0;
    int64_t bytes = (int64_t)th_dtype_size(array->dtype);
    for (int d = 0; d < array->ndim; d++)
        bytes *= array->stride[d] == 0 && array->size[d] > 1 ? 1 : array->size[d];
    return bytes;
}

static int64_t bytes_of_call(const th_call *call, bool backward)
{
    int64_t bytes = 0;
    if (backward && call->early) /* forward has written all that there is */
        return 0;
    for (int i = 0; i < call->n_inputs; i++) {
        bytes += bytes_of(&call->input[i]);
        bytes += bytes_of(&call->input_gradient[i]) * (backward && call->add[i] ? 2 : 1);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        bytes += bytes_of(&call->output[i]);
        if (backward)
            bytes += bytes_of(&call->output_gradient[i]);
    }
    return bytes;
}

static int64_t multiply_adds_of_call(const th_call *call, bool backward)
{
    if (call->op->multiply_adds == NULL)
        return 0;
    const bool done = backward && call->early; /* by forward, whose call has counted them */
    int64_t products = backward ? 0 : 1;
    for (int i = 0; !done && i < 2 && i < call->n_inputs; i++)
        products += call->input_gradient[i].given;
    int64_t work;
    if (products == 0)
        return 0;
    return th_checked_multiply(products, call->op->multiply_adds(call), &work) ? work : INT64_MAX;
}

void th_profile_call(const th_frame *frame, bool backward, int64_t start)
{
    const th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    const int64_t end = th_profile_now(); /* before anything else */
    th_profile_event event = {
        .operation = call->op->name,
        .phase = backward      ? TH_PROFILE_BACKWARD
                 : frame->node ? TH_PROFILE_AGAIN
                               : TH_PROFILE_FORWARD,
        .multiply_adds = multiply_adds_of_call(call, backward),
    };
    th_profile_shape shape[MAX_SHAPES];
    add_shapes(&event, shape, call);
    set_place(ctx, frame->node, &event);
    record(ctx, &event, shape, bytes_of_call(call, backward), start, end);
}

void th_profile_sum_of(const th_frame *frame, const th_array *from, const th_array *to, bool add, int64_t start)
{
    th_context *ctx = frame->call.ctx;
    const int64_t end = th_profile_now();
    th_profile_event event = {.operation = "gradient sum", .phase = TH_PROFILE_BACKWARD};
    th_profile_shape shape[2];
    add_shape(&event, shape, from, false);
    add_shape(&event, shape, to, true);
    set_place(ctx, frame->node, &event);
    record(ctx, &event, shape, bytes_of(from) + bytes_of(to) * (add ? 2 : 1), start, end);
}

void th_profile_step(th_context *ctx, const char *operation, int64_t start)
{
    const int64_t end = th_profile_now();
    th_profile_event event = {.operation = operation, .phase = TH_PROFILE_STEP};
    set_place(ctx, NULL, &event);
    record(ctx, &event, NULL, 0, start, end);
}

/* -- reading -- */

bool th_profile_readable(th_context *ctx, const char *operation)
{
    if (!th_usable_context(ctx, operation))
        return false;
    if (ctx->profile == NULL)
        th_fail(ctx, TH_ERROR_STATE, operation, "there is no profile (th_profile_begin)");
    return ctx->profile != NULL;
}

int64_t th_profile_event_count(const th_context *ctx)
{
    return ctx->profile->events.count;
}

const th_profile_event *th_profile_event_at(const th_context *ctx, int64_t index)
{
    return th_pool_at(&ctx->profile->events, index);
}

int64_t th_profile_count(const th_context *ctx)
{
    return ctx && ctx->profile ? ctx->profile->tallies.count : 0;
}

th_profile_total th_profile_sum(const th_context *ctx)
{
    th_profile_total total = {0};
    const th_profile *p = ctx ? ctx->profile : NULL;
    if (p == NULL)
        return total;
    int64_t inside = 0;
    for (int64_t i = 0; i < p->tallies.count; i++) {
        const tally *sum = th_pool_at(&p->tallies, i);
        inside += sum->nanoseconds;
        total.calls += sum->calls;
        total.multiply_adds = sum_of_work(total.multiply_adds, sum->multiply_adds);
    }
    const int64_t whole = (ctx->profiling ? th_profile_now() : p->end) - p->begin - p->overhead;
    total.milliseconds = 1e-6 * (double)whole;
    total.operations = 1e-6 * (double)inside;
    total.outside = 1e-6 * (double)(whole - inside);
    total.overhead = 1e-6 * (double)p->overhead;
    total.events = p->events.count;
    total.dropped = p->dropped;
    return total;
}

/* More time, or as much and seen earlier. */
static bool precedes(const th_pool *tallies, int64_t i, int64_t j)
{
    const tally *a = th_pool_at(tallies, i), *b = th_pool_at(tallies, j);
    return a->nanoseconds > b->nanoseconds || (a->nanoseconds == b->nanoseconds && i < j);
}

/* The tally that `rank` others precede: found by counting, so that nothing need be sorted while it still grows. */
static const tally *tally_ranked(const th_pool *tallies, int64_t rank)
{
    for (int64_t i = 0; i < tallies->count; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < tallies->count; j++)
            before += precedes(tallies, j, i);
        if (before == rank)
            return th_pool_at(tallies, i);
    }
    return NULL;
}

th_status(th_profile_entry_at)(th_context *ctx, int64_t index, th_profile_entry *entry)
{
    if (!th_profile_readable(ctx, "profile_entry_at"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (entry == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "profile_entry_at", "the entry is NULL");
    const tally *sum = tally_ranked(&ctx->profile->tallies, index);
    if (sum == NULL)
        return th_fail(ctx, TH_ERROR_INDEX, "profile_entry_at", "entry %" PRId64 " of %" PRId64, index,
                       th_profile_count(ctx));
    const double whole = th_profile_sum(ctx).milliseconds, milliseconds = 1e-6 * (double)sum->nanoseconds;
    *entry = (th_profile_entry){
        .operation = sum->operation,
        .phase = sum->phase,
        .calls = sum->calls,
        .milliseconds = milliseconds,
        .share = whole > 0 ? milliseconds / whole : 0,
        .multiply_adds = sum->multiply_adds,
        .gflops = sum->nanoseconds > 0 ? 2 * (double)sum->multiply_adds / (double)sum->nanoseconds : 0,
        .bytes = sum->bytes,
    };
    return TH_OK;
}

/* A rate, or a dash where there is none. */
static void print_rate(FILE *file, double rate)
{
    if (rate > 0)
        th_format_to(file, " %8.1f", rate);
    else
        fprintf(file, " %8s", "-");
}

static void print_entry(FILE *file, const th_profile_entry *entry)
{
    th_format_to(file, "%-30s %-8s %9" PRId64 " %11.3f %6.1f %%", entry->operation, th_profile_phase_name(entry->phase),
                 entry->calls, entry->milliseconds, 100 * entry->share);
    print_rate(file, entry->gflops);
    print_rate(file, entry->milliseconds > 0 ? 1e-6 * (double)entry->bytes / entry->milliseconds : 0);
    fputc('\n', file);
}

static void print_total(FILE *file, const char *what, double milliseconds, double whole)
{
    th_format_to(file, "%-49s %11.3f %6.1f %%\n", what, milliseconds, whole > 0 ? 100 * milliseconds / whole : 0);
}

th_status(th_profile_print)(th_context *ctx, FILE *file)
{
    if (!th_profile_readable(ctx, "profile_print"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (file == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "profile_print", "the file is NULL");
    fprintf(file, "%-30s %-8s %9s %11s %8s %8s %8s\n", "operation", "phase", "calls", "ms", "share", "GF/s", "GB/s");
    for (int64_t i = 0; i < th_profile_count(ctx); i++) {
        th_profile_entry entry;
        if ((th_profile_entry_at)(ctx, i, &entry) != TH_OK)
            return ctx->error;
        print_entry(file, &entry);
    }
    const th_profile_total total = th_profile_sum(ctx);
    print_total(file, "outside operations", total.outside, total.milliseconds);
    print_total(file, "total", total.milliseconds, total.milliseconds);
    th_format_to(file, "%" PRId64 " calls, %" PRId64 " multiply-adds; recording them took %.3f ms more", total.calls,
                 total.multiply_adds, total.overhead);
    if (total.dropped)
        fprintf(file, "; %" PRId64 " of the calls found no room in the trace", total.dropped);
    fputc('\n', file);
    if (fflush(file) != 0 || ferror(file))
        return th_fail(ctx, TH_ERROR_FILE, "profile_print", "writing failed");
    return TH_OK;
}
