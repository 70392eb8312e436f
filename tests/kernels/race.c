/* An intentional race: two tasks write one number. ThreadSanitizer must report it; if it does not, its silence about
 * the library means nothing. The tasks wait for each other, so that two threads run them, without ordering their
 * writes. They write often, because ThreadSanitizer can miss two writes at the same moment. */
#include <stdatomic.h>

#include "kernels/machine/parallel.h"

static _Atomic int arrived;
static volatile int number;

static void write_number(void *shared, int64_t index, int worker)
{
    (void)shared;
    (void)worker;
    atomic_fetch_add_explicit(&arrived, 1, memory_order_relaxed);
    while (atomic_load_explicit(&arrived, memory_order_relaxed) < 2)
        ;
    for (int i = 0; i < 1000; i++)
        number = (int)index;
}

int main(void)
{
    th_parallel(2, 2, write_number, 0);
    return number;
}
