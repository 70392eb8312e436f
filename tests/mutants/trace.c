/* Records which basic blocks of the library run. The compiler calls the function at the beginning of each block. The
 * file MUTANTS_TRACE has one byte for each address, relative to this function; processes made by fork share it. */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SPACE = 1 << 23 /* bytes of code */
};

void __sanitizer_cov_trace_pc(void);
static unsigned char *seen;

void __sanitizer_cov_trace_pc(void)
{
    const ptrdiff_t offset = (char *)__builtin_return_address(0) - (char *)__sanitizer_cov_trace_pc;
    if (seen && offset > 0 && offset < SPACE)
        seen[offset] = 1;
}

__attribute__((constructor)) static void open_trace(void)
{
    const char *path = getenv("MUTANTS_TRACE");
    const int file = path ? open(path, O_RDWR) : -1;
    if (file < 0)
        return;
    void *space = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (space != MAP_FAILED)
        seen = space;
    close(file);
}
