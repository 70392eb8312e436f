/* What exports of gradients need: that the tape's gradients are those of one backward pass. */
#ifndef TH_EXPORT_ONE_PASS_H
#define TH_EXPORT_ONE_PASS_H

#include "autograd/tape.h"

/* Fails with TH_ERROR_STATE if several passes ran through the tape, or if one added to earlier gradients of leaves. */
th_status th_one_pass(th_context *ctx, const char *operation);

#endif
