/* The time that Check allows a test function, for every suite alike, whether ctest starts it or a person does. It comes
 * from CMakeLists.txt, and CK_DEFAULT_TIMEOUT in the environment goes before it. Part of every test_*.c. */
#include <stdlib.h>

__attribute__((constructor)) static void set_time_limit(void)
{
    setenv("CK_DEFAULT_TIMEOUT", TIME_LIMIT, 0);
}
