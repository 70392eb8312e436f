/* Fuzz target: the index of several safetensors files. Its folder has a file "a" with the tensors x and y, and a file
 * "b" with z. An index names only files in its folder, and a tensor has the numbers of its file. */
#include "tapehead/safetensors.h"

#include "fuzz.h"

static void write_files(th_context *ctx)
{
    th_tensor *one = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 1), *two = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 2);
    const th_named_tensor a[] = {{"x", one}, {"y", two}}, b[] = {{"z", two}};
    FUZZ_CHECK(th_safetensors_write(ctx, fuzz_path("a"), a, 2, NULL, 0) == TH_OK &&
                   th_safetensors_write(ctx, fuzz_path("b"), b, 1, NULL, 0) == TH_OK,
               "%s", th_error_message(ctx));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool written;
    th_context *ctx = fuzz_context(1 << 22);
    if (!written)
        write_files(ctx);
    written = true;
    th_safetensors *file = th_safetensors_open(ctx, fuzz_write("model.safetensors.index.json", data, size));
    if (!fuzz_rejected(ctx, file == NULL, fuzz_path("")))
        for (int64_t i = 0; i < th_safetensors_count(file); i++) {
            const th_stored_tensor *stored = th_safetensors_at(file, i);
            FUZZ_CHECK(strlen(stored->name) == 1 && strchr("xyz", stored->name[0]), "tensor \"%s\" is in no file",
                       stored->name);
            th_tensor *t = th_safetensors_read(file, stored->name);
            FUZZ_CHECK(t && ((const float *)th_data_const(t))[1] == (stored->name[0] == 'x' ? 1 : 2),
                       "tensor %s has other numbers", stored->name);
        }
    th_safetensors_close(file);
    fuzz_context_free(ctx);
    return 0;
}
