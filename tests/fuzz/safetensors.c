/* Fuzz target: safetensors. What can be read is read twice with the same bits, is written, and is read again. */
#include "tapehead/safetensors.h"

#include "safetensors_mutator.h"

enum { MAX_TENSORS = 64 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_safetensors(data, size, max_size, seed);
}

/* Reads a tensor into an existing one, which keeps its type. */
static void read_into(th_context *ctx, th_safetensors *file, const th_stored_tensor *stored, const th_tensor *expected)
{
    th_tensor *same = th_empty(ctx, stored->dtype, stored->shape);
    FUZZ_CHECK(same && th_safetensors_read_into(file, stored->name, same) == TH_OK, "%s", th_error_message(ctx));
    fuzz_check_same(same, expected);
    th_tensor *other = th_empty(ctx, stored->dtype == TH_FLOAT32 ? TH_FLOAT64 : TH_INT32, stored->shape);
    const th_status status = th_safetensors_read_into(file, stored->name, other);
    (void)fuzz_failed(ctx, status != TH_OK);
}

/* Reads all tensors. Returns how many can be read. */
static int64_t read_all(th_context *ctx, th_safetensors *file, th_named_tensor *read)
{
    int64_t count = 0;
    for (int64_t i = 0; i < th_safetensors_count(file) && count < MAX_TENSORS; i++) {
        const th_stored_tensor *stored = th_safetensors_at(file, i);
        FUZZ_CHECK(th_safetensors_find(file, stored->name) == stored, "a tensor is not found by its name");
        th_tensor *t = th_safetensors_read(file, stored->name);
        if (!stored->readable) {
            FUZZ_CHECK(fuzz_failed_with(ctx, t == NULL, TH_ERROR_TYPE), "a type that is not readable was read");
            continue;
        }
        if (fuzz_rejected(ctx, t == NULL,
                          fuzz_path("a.safetensors"))) /* an element outside the type, or out of memory */
            continue;
        read_into(ctx, file, stored, t);
        read[count++] = (th_named_tensor){stored->name, t};
    }
    return count;
}

static void write_and_read(th_context *ctx, const th_named_tensor *written, int64_t count)
{
    const char *path = fuzz_path("b.safetensors");
    const th_named_text metadata = {"key", "\"text\"\n"};
    FUZZ_CHECK(th_safetensors_write(ctx, path, written, count, &metadata, 1) == TH_OK, "%s", th_error_message(ctx));
    th_safetensors *file = th_safetensors_open(ctx, path);
    FUZZ_CHECK(file && th_safetensors_count(file) == count, "%s", th_error_message(ctx));
    const char *text = th_safetensors_metadata(file, "key");
    FUZZ_CHECK(text && strcmp(text, metadata.text) == 0, "the metadata is lost");
    for (int64_t i = 0; i < count; i++) {
        th_tensor *t = th_safetensors_read(file, written[i].name);
        FUZZ_CHECK(t != NULL, "%s", th_error_message(ctx));
        fuzz_check_same(t, written[i].tensor);
    }
    th_safetensors_close(file);
}

/* The tensors fill the file behind the header, without holes and overlaps: each begins where the one before it ends. */
static void check_bytes(th_context *ctx, th_safetensors *file, const uint8_t *data, size_t size)
{
    size_t at = 8 + header_length(data, size);
    for (int64_t i = 0; i < th_safetensors_count(file); i++) {
        const th_stored_tensor *stored = th_safetensors_at(file, i);
        const size_t bytes = (size_t)stored->bytes;
        const bool same = strcmp(stored->type, "F32") == 0 || strcmp(stored->type, "I64") == 0; /* as in memory */
        th_tensor *t = same ? th_safetensors_read(file, stored->name) : NULL;
        if (!fuzz_failed_with(ctx, same && t == NULL, TH_ERROR_MEMORY) && same && bytes > 0)
            FUZZ_CHECK(at + bytes <= size && memcmp(th_data_const(t), data + at, bytes) == 0,
                       "tensor %lld has the bytes of another place", (long long)i);
        at += bytes;
    }
    FUZZ_CHECK(at == size, "the tensors end at byte %zu of %zu", at, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    th_named_tensor read[MAX_TENSORS];
    th_context *ctx = fuzz_context(1 << 22);
    th_safetensors *file = th_safetensors_open(ctx, fuzz_write("a.safetensors", data, size));
    if (!fuzz_rejected(ctx, file == NULL, fuzz_path("a.safetensors"))) {
        check_bytes(ctx, file, data, size);
        const int64_t count = read_all(ctx, file, read);
        if (count > 0)
            write_and_read(ctx, read, count);
        (void)th_safetensors_metadata(file, "format");
    }
    th_safetensors_close(file);
    fuzz_context_free(ctx);
    return 0;
}
