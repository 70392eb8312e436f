/* How the engine runs the function of a th_checker. */
#ifndef TH_CHECKER_ENGINE_CALLS_H
#define TH_CHECKER_ENGINE_CALLS_H

#include "checker/checker.h"

extern const th_engine_calls th_checker_calls;

/* Reports that the pending error of the context prevented the check. Returns that error. */
th_status th_report_error(th_gradient_report *report, const th_context *ctx);

#endif
