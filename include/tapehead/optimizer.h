/* Optimizers and learning-rate schedules.
 *
 *     const th_adam_options options = {.learning_rate = 1e-3, .weight_decay = 0.1, .max_norm = 1.0};
 *     th_optimizer *adam = th_adam_w_new(model, &options);
 *     ...
 *     th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &schedule));
 *     if (th_backward(loss, NULL) || th_optimizer_step(adam))
 *         return report(ctx);
 *
 * theta: a parameter, g: its gradient, t: the steps this parameter has taken, this one included. */
#ifndef TAPEHEAD_OPTIMIZER_H
#define TAPEHEAD_OPTIMIZER_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

typedef struct th_optimizer th_optimizer;

/* In option structs 0 stands for the default; where 0 itself is meant, write TH_ZERO: { .beta1 = TH_ZERO }. (It is the
 * zero with a minus sign.) */
#define TH_ZERO (-0.0)

/* Parameters with options of their own. A parameter belongs to the first group that takes it; those that none takes
 * follow the optimizer's options. */
typedef struct th_parameter_group {
    const char *pattern; /* of the dotted name, as a shell matches file names: "*.bias", "embedding.*"; NULL: see takes.
                            Copied. */
    bool (*takes)(const char *name, th_tensor *parameter,
                  void *user); /* asked when there is no pattern; NULL too: takes every parameter */
    void *user;
    double learning_rate_factor; /* times the optimizer's learning rate; 0: 1, TH_ZERO: 0 */
    double weight_decay;         /* 0: the optimizer's; TH_ZERO: none */
} th_parameter_group;

/* SGD, as PyTorch computes it:
 *     g += weight_decay theta;  b = momentum b + (1 - dampening) g   (b = g at the first step and without momentum)
 *     theta -= learning_rate b                                       nesterov: learning_rate (g + momentum b)
 * nesterov: Nesterov 1983, in the form of Sutskever et al. 2013. b and g + momentum b are limited to the largest finite
 * number of their type. theta overflows only if learning_rate times a gradient does. */
typedef struct th_sgd_options {
    double learning_rate;             /* always given; positive */
    double momentum;                  /* [0, 1); 0: none */
    double dampening;                 /* [0, 1]; not with nesterov */
    bool nesterov;                    /* needs momentum */
    double weight_decay;              /* coupled: an L2 term in the gradient */
    double max_norm;                  /* clip the global norm of all gradients to this; 0: no clipping */
    const th_parameter_group *groups; /* [n_groups] */
    int n_groups;
} th_sgd_options;

/* Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019):
 *     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,  m^ = m / (1 - beta1^t),  v^ = v / (1 - beta2^t)
 *     theta -= learning_rate m^ / (sqrt(v^) + eps)          eps_inside: learning_rate m^ / sqrt(v^ + eps)
 * With amsgrad (Reddi et al. 2018) the largest v so far replaces v. Weight decay: Adam adds weight_decay theta to g;
 * AdamW first subtracts learning_rate weight_decay theta from theta.
 *
 * g is limited to +-2^63 (9.2e18) in float32, and to +-2^511 (6.7e153) in float64, because larger squares would
 * overflow. So a huge gradient element moves its parameter by about the learning rate, as any large one does. Its part
 * of v decreases by the factor beta2 at each step. With eps = TH_ZERO a parameter becomes NaN or infinite where v^ is
 * 0. */
typedef struct th_adam_options {
    double learning_rate; /* always given; positive */
    double beta1, beta2;  /* [0, 1); 0: 0.9 and 0.999; TH_ZERO: 0 */
    double eps;           /* 0: 1e-8; TH_ZERO: 0 */
    bool eps_inside;
    bool amsgrad;
    double weight_decay;              /* 0: none, for AdamW too */
    double max_norm;                  /* clip the global norm of all gradients to this; 0: no clipping */
    const th_parameter_group *groups; /* [n_groups] */
    int n_groups;
} th_adam_options;

/* An optimizer of all parameters that the module has now. It belongs to the context; freeing the module first is fine.
 * NULL with the error stored: a module without parameters, an option outside its range. */
TH_API th_optimizer *th_sgd_new(th_module *m, const th_sgd_options *options);
TH_API th_optimizer *th_adam_new(th_module *m, const th_adam_options *options);
TH_API th_optimizer *th_adam_w_new(th_module *m, const th_adam_options *options);
/* NULL is fine. Using one that was freed is TH_ERROR_STATE, as for a module (th_module_free). */
TH_API void th_optimizer_free(th_optimizer *optimizer);

/* Updates every parameter that has a gradient; other parameters, such as frozen ones, do not change. Then it marks
 * these gradients as empty and adds one to the context's step count. If a gradient is not finite, nothing changes, and
 * TH_ERROR_VALUE names the parameter and the element. The gradients can then be examined, and the step can be repeated:
 * the next backward overwrites them, with the same random numbers. The first step allocates the moments
 * (TH_ERROR_MEMORY); later steps allocate nothing.
 *
 * If th_backward was forgotten, nothing changes, and the result is TH_ERROR_STATE. This means: a parameter requires a
 * gradient, none of them has one, and no th_backward succeeded since this optimizer's last step. If a th_backward
 * reached none of these parameters, or all of them are frozen, the step changes no parameter and returns TH_OK. */
TH_API th_status th_optimizer_step(th_optimizer *optimizer) TH_MUST_CHECK;

/* Taken literally, 0 included; TH_ERROR_ARGUMENT for a negative or non-finite one. */
TH_API th_status th_optimizer_set_learning_rate(th_optimizer *optimizer, double learning_rate);
TH_API double th_optimizer_learning_rate(const th_optimizer *optimizer);
/* The global norm of the gradients that the last step saw, before clipping (0 before the first step, and in a
 * shapes-only context). The sum of squares is a float64, and the norm is at most the largest float64. */
TH_API double th_optimizer_gradient_norm(const th_optimizer *optimizer);

/* Scales all gradients of the module's parameters so that their global norm sqrt(sum g^2) is at most max_norm: g *=
 * min(1, max_norm / norm). norm (may be NULL) gets the norm before. A non-finite gradient is TH_ERROR_VALUE, and
 * nothing is scaled. */
TH_API th_status th_clip_gradients(th_module *m, double max_norm, double *norm) TH_MUST_CHECK;

/* -- schedules: pure functions of the step, counted from 0 -- */
/* The rate itself: what a program writes that chooses its schedule at run time. */
TH_API double th_schedule_constant(int64_t step, double rate);
/* Linear warm-up peak (step + 1) / warmup_steps, then half a cosine (Loshchilov & Hutter 2017) down to final_rate at
 * total_steps, which stays. NULL gives NaN here and below, which th_optimizer_set_learning_rate refuses. */
typedef struct th_cosine_schedule {
    double peak;
    int64_t warmup_steps, total_steps;
    double final_rate;
} th_cosine_schedule;
TH_API double th_schedule_cosine(int64_t step, const th_cosine_schedule *schedule);
/* factor width^-1/2 min(n^-1/2, n warmup_steps^-3/2), n = step + 1 (Vaswani et al. 2017). factor 0: 1. */
typedef struct th_noam_schedule {
    int64_t width, warmup_steps;
    double factor;
} th_noam_schedule;
TH_API double th_schedule_noam(int64_t step, const th_noam_schedule *schedule);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_sgd_new(...) TH_AT_POINTER(th_optimizer, th_sgd_new(__VA_ARGS__))
#define th_adam_new(...) TH_AT_POINTER(th_optimizer, th_adam_new(__VA_ARGS__))
#define th_adam_w_new(...) TH_AT_POINTER(th_optimizer, th_adam_w_new(__VA_ARGS__))
#define th_optimizer_step(...) TH_AT_STATUS(th_optimizer_step(__VA_ARGS__))
#define th_clip_gradients(...) TH_AT_STATUS(th_clip_gradients(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
