/* safetensors_verdict: reads paths from standard input, one on each line. Reads every tensor of the file and prints
 * "ok" or the error message. */
#include <stdio.h>
#include <string.h>
#include <tapehead/models.h>

static void read_all(th_context *ctx, const char *path)
{
    th_safetensors *file = th_safetensors_open(ctx, path);
    for (int64_t i = 0; th_error_code(ctx) == TH_OK && i < th_safetensors_count(file); i++) {
        const th_stored_tensor *stored = th_safetensors_at(file, i);
        if (stored->readable)
            th_tensor_free(th_safetensors_read(file, stored->name));
    }
    th_safetensors_close(file);
}

int main(void)
{
    char path[4096];
    th_context *ctx = th_context_new(NULL);
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = 0;
        read_all(ctx, path);
        puts(th_error_code(ctx) ? th_error_message(ctx) : "ok");
        fflush(stdout);
        th_error_clear(ctx);
    }
    th_context_free(ctx);
    return 0;
}
