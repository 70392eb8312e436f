/* Conditions other than one backward of one forward (function.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checker/function/function.h"

bool th_run_check_conditions(th_run *run)
{
    (void)run;
    return true;
}
