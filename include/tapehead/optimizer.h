/* Optimizers and learning-rate schedules.
 *
 *     const th_adam_options options = {.learning_rate = 1e-3, .weight_decay = 0.1, .max_norm = 1.0};
 *     th_optimizer *adam = th_adam_w_new(model, &options);
 *     ...
 *     th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &schedule));
 *     if (th_backward(loss, NULL) || th_optimizer_step(adam))
 *         return report(ctx);
 *
 * theta: a parameter, g: its gradient, t: the number of steps that updated this parameter, the current one included. */
#ifndef TAPEHEAD_OPTIMIZER_H
#define TAPEHEAD_OPTIMIZER_H

#include "tapehead/group.h"
#include "tapehead/module.h"

TH_BEGIN_DECLS

/* An optimizer, made by th_sgd_new, th_adam_new, th_adam_w_new or th_muon_new. */
typedef struct th_optimizer th_optimizer;

/* Whether th_muon_new's optimizer updates parameters by Muon or by AdamW. */
typedef enum th_muon_use {
    TH_MUON_BY_KIND, /* th_muon_options describes the kinds */
    TH_MUON_ALWAYS,  /* by Muon; the parameters must have 2 axes */
    TH_MUON_NEVER    /* by AdamW */
} th_muon_use;

/* Parameters with other options than the rest. A parameter belongs to the first group that matches it. A parameter that
 * matches no group has the optimizer's options. A pattern that matches no parameter is TH_ERROR_ARGUMENT, and the
 * message has the nearest names; takes may match none. */
typedef struct th_parameter_group {
    const char *pattern; /* of the dotted name, as a shell matches file names: "*.bias", "embedding.*". Copied. NULL:
                            takes decides */
    bool (*takes)(const char *name, th_tensor *parameter,
                  void *user);   /* returns whether the group has this parameter; NULL: it has every parameter */
    void *user;                  /* passed to takes */
    double learning_rate_factor; /* the group's learning rate is the optimizer's times this factor; 0: 1 */
    bool no_update;              /* the parameters do not change: a factor of 0 */
    double weight_decay;         /* 0: the optimizer's */
    bool no_weight_decay;        /* a weight decay of 0 */
    th_muon_use muon;            /* of th_muon_new; other optimizers refuse another value than 0 */
} th_parameter_group;

/* Local steps, for machines that slow links connect: DiLoCo (Douillard et al. 2023, "DiLoCo: Distributed Low-Communication
 * Training of Language Models"). The processes of a group do not exchange gradients. Each one, a worker, updates all
 * parameters in its own way for H steps. Then all of them take an outer step, a step of SGD with Nesterov momentum. With
 * R workers, theta_r: a worker's parameters, theta: the parameters that all of them had before the H steps:
 *
 *     delta = 1 / R sum_r (theta - theta_r)
 *     velocity = momentum velocity + delta
 *     theta -= learning_rate (delta + momentum velocity)
 *
 * Then every worker continues from theta. delta and velocity have the shape of the parameter; velocity begins with 0.
 * The sum is the binary tree of th_shard, over the workers' ranks. So the bits depend on R and the number of shards, but
 * not on threads or the transport. The processes send 1 / H of the bytes that the usual exchange of gradients would
 * send. */
typedef struct th_diloco_options {
    int local_steps;      /* H; 0: none, the processes exchange gradients in each step */
    double learning_rate; /* of the outer step; 0: 0.7 */
    double momentum;      /* of the outer step, [0, 1); 0: 0.9 */
    bool no_momentum;     /* the momentum is 0 */
} th_diloco_options;

/* Options of SGD, which computes the same as PyTorch's:
 *
 *     g += weight_decay theta
 *     b = momentum b + (1 - dampening) g       b = g at the first step, and without momentum
 *     theta -= learning_rate b                 nesterov: learning_rate (g + momentum b)
 *
 * nesterov: Nesterov 1983, in the form of Sutskever et al. 2013.
 *
 * b and g + momentum b are limited to the largest finite number of their type. theta overflows only if learning_rate
 * times a gradient does. */
typedef struct th_sgd_options {
    double learning_rate;             /* must be given; positive */
    double momentum;                  /* [0, 1); 0: none */
    double dampening;                 /* [0, 1]; must be 0 with nesterov */
    bool nesterov;                    /* needs momentum */
    double weight_decay;              /* added to the gradient, as an L2 term */
    double max_norm;                  /* the global norm of all gradients is clipped to this; 0: no clipping */
    const th_parameter_group *groups; /* [n_groups] */
    int n_groups;
    int shards;               /* of each step: see th_shard; 0: 1 */
    th_group *group;          /* the processes that share the shards; NULL: this process alone */
    th_diloco_options diloco; /* local steps; {0}: none */
} th_sgd_options;

/* Options of Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019):
 *
 *     m = beta1 m + (1 - beta1) g
 *     v = beta2 v + (1 - beta2) g^2
 *     m^ = m / (1 - beta1^t)
 *     v^ = v / (1 - beta2^t)
 *     theta -= learning_rate m^ / (sqrt(v^) + eps)          eps_inside: learning_rate m^ / sqrt(v^ + eps)
 *
 * With amsgrad (Reddi et al. 2018) the largest v so far replaces v. Adam adds weight_decay theta to g. AdamW subtracts
 * learning_rate weight_decay theta from theta before the update.
 *
 * g is limited to +-2^63 (9.2e18) in float32, and to +-2^511 (6.7e153) in float64, because larger squares would
 * overflow. So a huge gradient element moves its parameter by about the learning rate, as any large one does. Its share
 * of v decreases by the factor beta2 at each step. */
typedef struct th_adam_options {
    double learning_rate; /* must be given; positive */
    double beta1, beta2;  /* [0, 1); 0: 0.9 and 0.999, unless has_betas */
    bool has_betas;       /* beta1 and beta2 are used even if they are 0; TH_BETAS(beta1, beta2) sets all three */
    double eps;           /* 0: 1e-8 */
    bool no_eps;          /* eps is 0: where v^ is 0, the parameter becomes NaN or infinite */
    bool eps_inside;      /* eps is added before the square root */
    bool amsgrad;         /* AMSGrad */
    double weight_decay;  /* 0: none, for AdamW too */
    double max_norm;      /* the global norm of all gradients is clipped to this; 0: no clipping */
    const th_parameter_group *groups; /* [n_groups] */
    int n_groups;
    int shards;               /* of each step: see th_shard; 0: 1 */
    th_group *group;          /* the processes that share the shards; NULL: this process alone */
    th_diloco_options diloco; /* local steps; {0}: none */
} th_adam_options;
/* Sets beta1, beta2 and has_betas in th_adam_options: {.learning_rate = 1e-3, TH_BETAS(0, 0.99)}. */
#define TH_BETAS(first, second) .beta1 = (first), .beta2 = (second), .has_betas = true

/* How Muon adjusts the learning rate of a matrix with A rows and B columns. */
typedef enum th_muon_adjustment {
    TH_MUON_ORIGINAL,        /* times sqrt(max(1, A / B)) (Jordan et al. 2024) */
    TH_MUON_MATCH_RMS_ADAMW, /* times 0.2 sqrt(max(A, B)): elements move as far as by AdamW (Liu et al. 2025, "Muon is
                                Scalable for LLM Training") */
} th_muon_adjustment;

/* Which polynomials make a matrix orthogonal. */
typedef enum th_muon_iteration {
    TH_MUON_JORDAN,        /* the same in each step: Jordan's, or `coefficients` */
    TH_MUON_POLAR_EXPRESS, /* another one in each step (Amsel et al. 2025, "The Polar Express"): 3 steps replace 5. X is
                              divided by the square root of |X X^T|, which is smaller than |X| */
} th_muon_iteration;

/* Options of Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"), which computes the
 * same as PyTorch's, but without its cast to bfloat16. M: the momentum of a matrix theta.
 *
 *     M = momentum M + (1 - momentum) g
 *     X = (1 - momentum) g + momentum M              no_nesterov: X = M
 *     X = X / max(|X|, eps)                          |X|: the square root of the sum of squares
 *     X = a X + (b X X^T + c (X X^T)^2) X            `steps` times, with coefficients a, b, c (Newton-Schulz)
 *     theta -= learning_rate weight_decay theta
 *     theta -= adjusted learning_rate X              th_muon_adjustment
 *
 * X becomes nearly orthogonal: its singular values are near 1. Muon updates the matrices of hidden layers: the weights of
 * dense layers, the projections of attention, and A and B of adapters (tapehead/lora.h). A fused weight of query, key and
 * value is three matrices. AdamW updates all other parameters: embeddings, the classifier of a th_language_model or a
 * th_transformer, norms, biases, and the parameters of modules of your own. A dense layer that is the last one of a
 * module of your own is a hidden layer, too, unless a group says otherwise:
 *
 *     const th_parameter_group groups[] = {{.pattern = "classifier.*", .muon = TH_MUON_NEVER}};
 *
 * g is limited to +-2^48 (2.8e14) in float32, and to +-2^480 (3.1e144) in float64; AdamW's limits are those of
 * th_adam_options. A group's weight_decay and learning_rate_factor apply to both kinds. */
typedef struct th_muon_options {
    double learning_rate; /* of matrices; must be given; positive */
    double weight_decay;  /* of matrices; 0: none */
    double momentum;      /* [0, 1); 0: 0.95 */
    bool no_momentum;     /* the momentum is 0 */
    bool no_nesterov;     /* X = M */
    th_muon_iteration iteration;
    double coefficients[3]; /* a, b, c; all 0: 3.4445, -4.7750, 2.0315; must be 0 with TH_MUON_POLAR_EXPRESS */
    int steps;              /* [1, 16]; 0: 5, or 3 with TH_MUON_POLAR_EXPRESS */
    double eps;             /* positive; 0: 1e-7 */
    th_muon_adjustment adjustment;
    /* AdamW's learning rate. 0: learning_rate, with TH_MUON_MATCH_RMS_ADAMW. TH_MUON_ORIGINAL needs another value.
     * th_optimizer_set_learning_rate sets the rate of the matrices, and changes AdamW's rate by the same factor. */
    double adam_learning_rate;
    double adam_beta1, adam_beta2;    /* [0, 1); 0: 0.9 and 0.999, unless has_adam_betas */
    bool has_adam_betas;              /* adam_beta1 and adam_beta2 are used even if they are 0 */
    double adam_eps;                  /* positive; 0: 1e-8 */
    double adam_weight_decay;         /* 0: none */
    double max_norm;                  /* the global norm of all gradients is clipped to this; 0: no clipping */
    const th_parameter_group *groups; /* [n_groups] */
    int n_groups;
    int shards;               /* of each step: see th_shard; 0: 1 */
    th_group *group;          /* the processes that share the shards; NULL: this process alone */
    th_diloco_options diloco; /* local steps; {0}: none */
} th_muon_options;

/* Creates an SGD optimizer of all parameters that the module has now. If the module gets another one later that requires
 * a gradient, th_optimizer_step is an error. It belongs to the context. The module may be freed before the optimizer.
 * Returns NULL with the error pending if the module has no parameters or an option is out of range. With local steps, shards must be a multiple of the number of processes. */
TH_API th_optimizer *th_sgd_new(th_module *m, const th_sgd_options *options);
/* Creates an Adam optimizer, as th_sgd_new creates SGD. */
TH_API th_optimizer *th_adam_new(th_module *m, const th_adam_options *options);
/* Creates an AdamW optimizer, as th_sgd_new creates SGD. */
TH_API th_optimizer *th_adam_w_new(th_module *m, const th_adam_options *options);
/* Creates an optimizer that updates matrices of hidden layers by Muon and all other parameters by AdamW, as th_sgd_new
 * creates SGD. TH_ERROR_ARGUMENT, too, if a group asks for Muon and has a parameter without exactly 2 axes. */
TH_API th_optimizer *th_muon_new(th_module *m, const th_muon_options *options);
/* Frees an optimizer; NULL is allowed. Using it afterwards is TH_ERROR_STATE, as for a module (th_module_free). */
TH_API void th_optimizer_free(th_optimizer *optimizer);

/* Updates every parameter that has a gradient. Other parameters, such as frozen ones, do not change. Then it empties
 * these gradients and adds one to the context's step count. The first step allocates the moments (TH_ERROR_MEMORY);
 * later steps allocate nothing.
 *
 * If a gradient is not finite, nothing changes, and TH_ERROR_VALUE names the parameter and the element. The gradients
 * can be examined. The step can be repeated: its operations then draw the same random numbers, and the next
 * th_backward overwrites the gradients.
 *
 * If a parameter was added to the module after the optimizer was created, nothing changes, and TH_ERROR_STATE names the
 * parameter. Create a new optimizer, or freeze the parameter. A parameter of another optimizer is accepted.
 *
 * If th_backward was forgotten, nothing changes, and the result is TH_ERROR_STATE. This means: a parameter requires a
 * gradient, none of them has one, and no th_backward succeeded since this optimizer's last step. If a th_backward
 * reached none of these parameters, or all of them are frozen, the step changes no parameter and returns TH_OK.
 *
 * With a group, the step is collective. Each process updates its part of the parameters, and has the moments of this
 * part only. In the whole group, each moment exists once. Then all processes receive all parameters.
 *
 * An error in one process is an error of the step in all processes. Each returns the code and the message of the first
 * process that has an error, with its rank. No parameter has changed. To continue, clear the error in all processes. A
 * gradient that is not finite is an error in all processes too. After TH_ERROR_PROCESS some parameters may have changed:
 * end the program.
 *
 * If the processes differ, the step is TH_ERROR_STATE in all of them. They compare the number of steps and shards, the
 * seed, the learning rate and the other options, the precision and the backend of products, fusion, the training mode,
 * the options of the library's modules (dropout, for example), and which parameters are frozen. So a process without
 * fused multiply-add cannot join others. At the first step they compare the parameters' values. They
 * also compare the layout of the parameters in memory, which depends on all modules of the context. So create and free
 * the same modules in all processes, or use another context for a module that only one process needs.
 *
 * With local steps (th_diloco_options), only every H-th step is collective. It takes the outer step after the update,
 * for the parameters that any worker has changed since the last outer step. Each process has all moments, a copy of the
 * parameters, and its part of the velocity. Differences:
 *
 *     - A process with an error waits in its step until the others take their outer step, or call another collective
 *       function. Then all return the error, and no parameter changes in the current step of each. The group's timeout
 *       must be longer than H steps.
 *     - If a sum of differences is not finite, all processes return TH_ERROR_VALUE, which names the parameter. The
 *       parameters are again those after the last outer step, and velocity has not changed. The steps since then
 *       count, and their moments remain.
 *     - A request to stop (th_group_request_stop) arrives with the outer step. */
TH_API th_status th_optimizer_step(th_optimizer *optimizer) TH_MUST_CHECK;

/* -- a step in shards --
 *
 * A step consists of S shards: parts of the batch that are computed one after the other, or by several processes
 * (tapehead/group.h). The loop visits the shards of this process:
 *
 *     for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard);) {
 *         ...                                              the data of shard.index
 *         if (th_backward(loss, NULL))
 *             break;                                       th_optimizer_step reports the error
 *         th_tape_clear(ctx);
 *     }
 *     if (th_optimizer_step(adam)) ...
 *
 * With g_s the gradient that backward computed in shard s, the optimizer uses
 *
 *     g = sum_s g_s / sum_s weight_s
 *
 * The sum is a binary tree over the shard numbers: 0 + 1, 2 + 3, ..., then (0 + 1) + (2 + 3), and so on. Random numbers
 * are functions of the shard's number too. So the bits of a step depend on S, but not on the number of processes or
 * threads. A step with one shard has the bits of a step without the loop.
 *
 * Do not freeze or unfreeze parameters in a loop of several shards: this is TH_ERROR_STATE. If the sum of the weights is
 * below 1e-18 or not finite, the step is TH_ERROR_VALUE and changes nothing.
 *
 * With P processes, process r computes the shards from r S / P (rounded down) to (r + 1) S / P. While it computes them,
 * log2(S / P) additional gradients are in memory.
 *
 * With local steps (th_diloco_options), both sums are over this process's shards, and the bits of a step depend on P. */
typedef struct th_shard {
    int index;     /* this shard's number, in [0, count) */
    int count;     /* S */
    double weight; /* 1; the program may set it. With a loss that is a sum, it is the number of summands: targets */
    double loss;   /* 0; the program may store the shard's loss here for th_optimizer_loss */
    /* internal */
    th_optimizer *optimizer;
    int end;
} th_shard;
/* Returns a shard before the first one of this process. An earlier unfinished loop is forgotten, with its gradients. */
TH_API th_shard th_optimizer_shards(th_optimizer *optimizer);
/* Adds the gradients of the current shard to the sum and moves to the next shard. Its operations draw the shard's
 * random numbers. Returns false behind the last shard, and if an error is pending. After the last shard, more calls
 * return false and do nothing. */
TH_API bool th_shard_next(th_shard *shard);
/* Returns the loss of the last step, sum_s loss_s / sum_s weight_s, of the shards of all processes; with local steps, of
 * this process's shards. */
TH_API double th_optimizer_loss(const th_optimizer *optimizer);

/* Sets the learning rate; 0 is allowed. TH_ERROR_ARGUMENT if it is negative or not finite. */
TH_API th_status th_optimizer_set_learning_rate(th_optimizer *optimizer, double learning_rate);
/* Returns the learning rate. */
TH_API double th_optimizer_learning_rate(const th_optimizer *optimizer);
/* Returns the global norm of the gradients of the last step, before clipping: 0 before the first step and in a
 * shapes-only context. The sum of squares is a float64. The norm is at most the largest float64. */
TH_API double th_optimizer_gradient_norm(const th_optimizer *optimizer);

/* Scales all gradients of the module's parameters so that their global norm sqrt(sum g^2) is at most max_norm:
 * g *= min(1, max_norm / norm). Sets *norm, unless norm is NULL, to the norm before scaling. If a gradient is not
 * finite, returns TH_ERROR_VALUE and scales nothing. */
TH_API th_status th_clip_gradients(th_module *m, double max_norm, double *norm) TH_MUST_CHECK;

/* -- schedules: functions of the step alone; steps are counted from 0 -- */
/* Options of th_schedule_cosine. */
typedef struct th_cosine_schedule {
    double peak;                       /* the highest rate */
    int64_t warmup_steps, total_steps; /* total_steps includes the warm-up */
    double final_rate;
} th_cosine_schedule;
/* Returns the learning rate of a step: linear warm-up, peak (step + 1) / warmup_steps, then half a cosine (Loshchilov &
 * Hutter 2017) down to final_rate at total_steps. Later steps have final_rate. A NULL schedule gives NaN, which
 * th_optimizer_set_learning_rate rejects. */
TH_API double th_schedule_cosine(int64_t step, const th_cosine_schedule *schedule);
/* Options of th_schedule_linear. */
typedef struct th_linear_schedule {
    double peak;                       /* the highest rate */
    int64_t warmup_steps, total_steps; /* total_steps includes the warm-up */
    double final_rate;
} th_linear_schedule;
/* Returns the learning rate of a step: the warm-up of th_schedule_cosine, then a line from peak to final_rate at
 * total_steps. Later steps have final_rate. A NULL schedule gives NaN. */
TH_API double th_schedule_linear(int64_t step, const th_linear_schedule *schedule);
/* How th_schedule_wsd decreases the rate. progress increases from 0 to 1 during the decay. */
typedef enum th_decay {
    TH_DECAY_LINEAR, /* factor 1 - progress */
    TH_DECAY_SQRT,   /* factor 1 - sqrt(progress), as in Haegele et al. 2024 */
    TH_DECAY_COSINE  /* factor (1 + cos(pi progress)) / 2 */
} th_decay;
/* Options of th_schedule_wsd. */
typedef struct th_wsd_schedule {
    double peak;                       /* the rate between warm-up and decay */
    int64_t warmup_steps, total_steps; /* total_steps includes warm-up and decay */
    int64_t decay_steps;               /* the last of total_steps; 0: the rate stays at peak */
    double final_rate;
    th_decay decay;
} th_wsd_schedule;
/* Returns the learning rate of a step: warm-up, stable, decay (WSD; Hu et al. 2024, "MiniCPM"). It is the warm-up of
 * th_schedule_cosine, then peak, then in the last decay_steps
 *
 *     final_rate + (peak - final_rate) factor
 *
 * Later steps have final_rate. A decay that is longer than the rest of total_steps begins after the warm-up. A NULL
 * schedule, or another value of decay, gives NaN. */
TH_API double th_schedule_wsd(int64_t step, const th_wsd_schedule *schedule);
/* Options of th_schedule_noam. */
typedef struct th_noam_schedule {
    int64_t width, warmup_steps;
    double factor; /* 0: 1 */
} th_noam_schedule;
/* Returns the learning rate of a step: factor width^-1/2 min(n^-1/2, n warmup_steps^-3/2) with n = step + 1. From
 * Vaswani et al. 2017. A NULL schedule gives NaN. */
TH_API double th_schedule_noam(int64_t step, const th_noam_schedule *schedule);

/* Options of th_schedule_batch. */
typedef struct th_batch_schedule {
    int64_t first, last;  /* the size of the first step's batch, and the full size: at least first */
    int64_t growth_steps; /* the first step with the full size; 0: all steps have it */
    int64_t multiple;     /* each size is a multiple of this, as first and last must be; 0: 1 */
} th_batch_schedule;
/* Returns the size of a step's batch. It grows in a line:
 *
 *     first + (last - first) step / growth_steps, rounded down to a multiple
 *
 * Small batches train a new model about as well as large ones. NULL, or an option out of its range, gives 0. */
TH_API int64_t th_schedule_batch(int64_t step, const th_batch_schedule *schedule);

/* -- a schedule that reads measurements -- */
/* Options of th_schedule_plateau, those of torch.optim.lr_scheduler.ReduceLROnPlateau. */
typedef struct th_plateau_schedule {
    double rate;       /* the learning rate at the start */
    double factor;     /* of a reduction, (0, 1); 0: 0.1 */
    double final_rate; /* the lowest rate */
    int64_t patience;  /* the number of bad measurements in a row that do not reduce the rate; 0: 10 */
    bool no_patience;  /* patience is 0 */
    int64_t cooldown;  /* measurements after a reduction that do not count as bad */
    double threshold;  /* what a better measurement must gain; 0: 1e-4 */
    bool no_threshold; /* threshold is 0 */
    bool absolute;     /* the gain is the difference; false: the difference divided by the best measurement */
    bool maximize;     /* larger measurements are better, such as an accuracy */
} th_plateau_schedule;
/* The state of th_schedule_plateau. {0} is its state before the first measurement. To resume, the program saves the
 * members and restores them (th_checkpoint_number). */
typedef struct th_plateau_state {
    int64_t measurements, bad, cooldown; /* in all; the bad ones in a row; the rest of the cooldown */
    double best, rate;                   /* both 0 before the first measurement */
} th_plateau_state;
/* Takes a measurement, for example a validation loss, and returns the learning rate from now on. A measurement is good
 * if it is below best (1 - threshold), or below best - threshold with .absolute; with .maximize, if it is above
 * best (1 + threshold) or best + threshold. After more than `patience` bad measurements in a row, the rate is
 * multiplied by factor, unless it would decrease by 1e-8 or less. It does not fall below final_rate. The first
 * finite measurement is good, and NaN is bad. NULL, or an option out of its range, gives NaN and leaves the state as it is. */
TH_API double th_schedule_plateau(double measurement, const th_plateau_schedule *schedule, th_plateau_state *state);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_sgd_new(...) TH_AT_POINTER(th_optimizer, th_sgd_new(__VA_ARGS__))
#define th_adam_new(...) TH_AT_POINTER(th_optimizer, th_adam_new(__VA_ARGS__))
#define th_adam_w_new(...) TH_AT_POINTER(th_optimizer, th_adam_w_new(__VA_ARGS__))
#define th_muon_new(...) TH_AT_POINTER(th_optimizer, th_muon_new(__VA_ARGS__))
#define th_optimizer_step(...) TH_AT_STATUS(th_optimizer_step(__VA_ARGS__))
#define th_clip_gradients(...) TH_AT_STATUS(th_clip_gradients(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
