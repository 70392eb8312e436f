/* Writes and reads safetensors files:
 *   safetensors_types FOLDER write FILE   writes a fixed list of tensors FOLDER/NAME.npy, one as a transposed view
 *   safetensors_types FOLDER read FILE    writes each readable tensor to FOLDER/tensor.I.npy, in order of the file */
#include "driver.h"

static void write_file(th_context *ctx, const char *folder, const char *path)
{
    static const char *const names[] = {"float32", "float64", "int32", "int64", "bool", "scalar", "empty", "matrix"};
    enum { COUNT = sizeof names / sizeof names[0] };
    static const th_named_text metadata[] = {{"format", "pt"}, {"said", "\"quotes\", \\ and \xc3\xa4\n"}};
    th_named_tensor tensors[COUNT];
    for (int i = 0; i < COUNT; i++)
        tensors[i] = (th_named_tensor){names[i], driver_read(ctx, folder, names[i])};
    tensors[COUNT - 1] = (th_named_tensor){"a \"matrix\".\xe2\x82\xac", th_swap_axes(tensors[COUNT - 1].tensor, 0, 1)};
    if (th_safetensors_write(ctx, path, tensors, COUNT, metadata, 2))
        driver_check(ctx);
}

static void read_file(th_context *ctx, const char *folder, const char *path)
{
    th_safetensors *file = th_safetensors_open(ctx, path);
    driver_check(ctx);
    for (int64_t i = 0; i < th_safetensors_count(file); i++) {
        const th_stored_tensor *stored = th_safetensors_at(file, i);
        char name[32];
        snprintf(name, sizeof name, "tensor.%lld", (long long)i);
        if (stored->readable)
            driver_write(ctx, folder, name, th_safetensors_read(file, stored->name));
        printf("%s\n", stored->name);
    }
}

int main(int argc, char **argv)
{
    th_context *ctx = th_context_new(NULL);
    if (argc == 4 && strcmp(argv[2], "write") == 0)
        write_file(ctx, argv[1], argv[3]);
    else if (argc == 4 && strcmp(argv[2], "read") == 0)
        read_file(ctx, argv[1], argv[3]);
    else
        return 2;
    th_context_free(ctx);
}
