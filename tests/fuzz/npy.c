/* Fuzz target: .npy files. An array that is read is written and read again with the same bits. A stream may have
 * several arrays. */
#include "tapehead/npy.h"
#include "fuzz.h"

/* Reads the arrays of a stream in order, up to the first that is rejected. The first equals `whole`, unless that is
 * NULL. */
static void read_stream(th_context *ctx, const char *path, const th_tensor *whole)
{
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL, "%s cannot be opened", path);
    th_tensor *t = th_npy_read_from(ctx, file);
    FUZZ_CHECK(t || whole == NULL, "the stream is rejected, but not the file");
    if (whole)
        fuzz_check_same(t, whole);
    for (int i = 0; t && i < 8; i++)
        t = th_npy_read_from(ctx, file);
    (void)fuzz_failed_with(ctx, t == NULL, TH_ERROR_FILE);
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    th_context *ctx = fuzz_context(1 << 24);
    const char *path = fuzz_write("a.npy", data, size), *copy = fuzz_path("b.npy");
    th_tensor *t = th_npy_read(ctx, path);
    if (!fuzz_rejected(ctx, t == NULL, path)) {
        FUZZ_CHECK(th_npy_write(t, copy) == TH_OK, "%s", th_error_message(ctx));
        th_tensor *again = th_npy_read(ctx, copy);
        FUZZ_CHECK(again != NULL, "%s", th_error_message(ctx));
        fuzz_check_same(t, again);
    }
    read_stream(ctx, path, t);
    fuzz_check_file(path, data, size);
    fuzz_context_free(ctx);
    return 0;
}
