/* Sets Check's time limit for a test function, in every test program. CMakeLists.txt defines TIME_LIMIT;
 * CK_DEFAULT_TIMEOUT in the environment overrides it. */
#include <stdlib.h>

__attribute__((constructor)) static void set_time_limit(void)
{
    setenv("CK_DEFAULT_TIMEOUT", TIME_LIMIT, 0);
}
