/* Weight averaging: the average of a module's parameters over the steps of training. It usually has a lower validation
 * loss than the parameters themselves.
 *
 *     th_weight_average *average = th_weight_average_new(model, &(th_weight_average_options){.decay = 0.999});
 *     ...
 *     if (th_optimizer_step(adam) || th_weight_average_update(average))
 *         return report(ctx);
 *     ...
 *     if (th_weight_average_swap(average))                      the model has the averages
 *         return report(ctx);
 *     ...                                                       evaluate, or th_weights_save
 *     if (th_weight_average_swap(average))                      the model has its own values again
 *         return report(ctx);
 *
 * th_checkpoint (tapehead/checkpoint.h) saves and restores averages. */
#ifndef TAPEHEAD_WEIGHT_AVERAGE_H
#define TAPEHEAD_WEIGHT_AVERAGE_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

/* The averages of a module's parameters. */
typedef struct th_weight_average th_weight_average;

/* Options. theta: a parameter, n: the number of earlier updates of its average. The first update (n = 0) copies theta.
 * Later ones compute
 *
 *     average = d average + (1 - d) theta
 *
 * d: decay; with warm_up min(decay, (1 + n) / (10 + n)), so that the first weights soon count little.
 * Without decay d = n / (n + 1): the mean of all weights, as in stochastic weight averaging (SWA; Izmailov et al. 2018).
 * torch.optim.swa_utils.AveragedModel computes the same without warm_up. */
typedef struct th_weight_average_options {
    double decay; /* of an exponential moving average (EMA), [0, 1); 0: the mean of all weights */
    bool warm_up; /* the decay begins with 0.18 and increases to decay; needs decay */
} th_weight_average_options;

/* Creates averages of all parameters of m; a tied parameter has one. They belong to the context. m may be freed before
 * them. options: NULL for the defaults. Returns NULL with the error pending: TH_ERROR_ARGUMENT if m is NULL, has no
 * parameters, or an option is out of its range; TH_ERROR_MEMORY. */
TH_API th_weight_average *th_weight_average_new(th_module *m, const th_weight_average_options *options);
/* Frees averages; NULL is allowed. If they are swapped, the model keeps them as its values. Using the averages
 * afterwards is TH_ERROR_STATE. */
TH_API void th_weight_average_free(th_weight_average *average);

/* Updates the averages, usually after each optimizer step. The average of a parameter begins with the first update at
 * which the parameter requires a gradient, and continues if it is frozen later. A frozen parameter without an average
 * costs nothing. Parameters that were added to the module take part. Parameters that were cast have averages of the new type.
 *
 * The first update allocates the averages, as much memory as the parameters. Errors change nothing: TH_ERROR_MEMORY;
 * TH_ERROR_STATE if the averages are swapped, or if the module was freed and no parameter is left.
 *
 * The bits do not depend on threads. With a group of processes, each process updates its own averages, without an
 * exchange. They have the same bits, because the parameters have. With local steps (th_diloco_options) this holds right
 * after outer steps only, so update the averages only then. */
TH_API th_status th_weight_average_update(th_weight_average *average) TH_MUST_CHECK;
/* Exchanges the parameters' values with their averages, in place. A second call restores both, with the same bits. A
 * parameter without an average keeps its value. Do not train in between. Views and handles stay valid. For operations
 * on the tape, the exchange is a change in place. TH_ERROR_STATE as for th_weight_average_update. */
TH_API th_status th_weight_average_swap(th_weight_average *average) TH_MUST_CHECK;
/* Returns whether the model has the averages: the number of exchanges is odd. */
TH_API bool th_weight_average_is_swapped(const th_weight_average *average);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_weight_average_new(...) TH_AT_POINTER(th_weight_average, th_weight_average_new(__VA_ARGS__))
#define th_weight_average_update(...) TH_AT_STATUS(th_weight_average_update(__VA_ARGS__))
#define th_weight_average_swap(...) TH_AT_STATUS(th_weight_average_swap(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
