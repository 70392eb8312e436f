/* Optimizer steps: one pass over parameters, gradients and moments, each element independently. The formulas are in
 * kernels/elementwise/optimizer_kernels.h. */
#include <float.h>

#include "kernels/elementwise/optimizer_kernels.h"
#include "kernels/vector/vector_math.h"

/* Adam limits gradient elements to this number, so that squares and their weighted sums are finite. */
#if TH_REAL_BITS == 32
static const real adam_limit = 0x1p63F, largest_real = FLT_MAX;
#else
static const real adam_limit = 0x1p511, largest_real = DBL_MAX;
#endif

/* The numbers of an update in the kernel's type. The gradient is computed as (gradient + p * decay) * scale, so that
 * the sum has only one product. */
typedef struct adam_numbers {
    real scale, decay, beta1, beta2, rate1, rate2, shrink, step, second, inside, outside;
} adam_numbers;

/* Returns beta * moment + rate * x, where rate = 1 - beta. Starts from the operand with the larger weight: if beta is
 * small, rounding errors of a large moment would otherwise remain. */
TH_INLINE vec interpolate(vec moment, vec x, real beta, real rate)
{
    return rate <= beta ? moment + (x - moment) * rate : x + (moment - x) * beta;
}

/* Updates one register. largest: NULL without AMSGrad. */
TH_INLINE void adam_register(const adam_numbers *a, vec gradient, vec *p, vec *m, vec *v, vec *largest)
{
    const vec g = vec_clamp((gradient + *p * a->decay) * a->scale, -adam_limit, adam_limit);
    *m = interpolate(*m, g, a->beta1, a->rate1);
    *v = interpolate(*v, g * g, a->beta2, a->rate2);
    if (largest)
        *largest = vec_maximum(*largest, *v);
    const vec root = vec_sqrt((largest ? *largest : *v) * a->second + a->inside) + a->outside;
    const vec shrunk = *p - *p * a->shrink;
    *p = shrunk - (*m / root) * a->step;
}

/* All arrays (n), contiguous, updated in place. amsgrad is a constant in each caller, so that the compiler removes
 * `ls`, the largest second moments, from Adam's loop. */
TH_INLINE void adam_run(int64_t n, real *ps, const real *gs, real *ms, real *vs, real *ls, bool amsgrad,
                        const adam_numbers *numbers)
{
    vec l = {0};
    int64_t i = 0;
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        vec p = vec_load(ps + i), m = vec_load(ms + i), v = vec_load(vs + i);
        if (amsgrad)
            l = vec_load(ls + i);
        adam_register(numbers, vec_load(gs + i), &p, &m, &v, amsgrad ? &l : NULL);
        vec_store(ps + i, p);
        vec_store(ms + i, m);
        vec_store(vs + i, v);
        if (amsgrad)
            vec_store(ls + i, l);
    }
    if (i < n) {
        const int64_t rest = n - i;
        vec p = vec_load_part(ps + i, rest, 1), m = vec_load_part(ms + i, rest, 1), v = vec_load_part(vs + i, rest, 1);
        if (amsgrad)
            l = vec_load_part(ls + i, rest, 1);
        adam_register(numbers, vec_load_part(gs + i, rest, 1), &p, &m, &v, amsgrad ? &l : NULL);
        vec_store_part(ps + i, rest, p);
        vec_store_part(ms + i, rest, m);
        vec_store_part(vs + i, rest, v);
        if (amsgrad)
            vec_store_part(ls + i, rest, l);
    }
}

/* All arrays (n), contiguous, updated in place. largest: NULL without AMSGrad. */
void TH_KERNEL(adam)(int64_t n, void *parameter, const void *gradient, void *first_moment, void *second_moment,
                     void *largest, const struct th_adam_update *update)
{
    const adam_numbers numbers = {.scale = (real)update->gradient_scale,
                                  .decay = (real)(update->weight_decay / update->gradient_scale),
                                  .beta1 = (real)update->beta1,
                                  .beta2 = (real)update->beta2,
                                  .rate1 = (real)(1 - update->beta1),
                                  .rate2 = (real)(1 - update->beta2),
                                  .shrink = (real)update->shrink,
                                  .step = (real)update->step_size,
                                  .second = (real)update->second_scale,
                                  .inside = (real)update->eps_inside,
                                  .outside = (real)update->eps_outside};
    if (largest)
        adam_run(n, parameter, gradient, first_moment, second_moment, largest, true, &numbers);
    else
        adam_run(n, parameter, gradient, first_moment, second_moment, NULL, false, &numbers);
}

typedef struct sgd_numbers {
    real scale, decay, forget, rate;
    bool nesterov;
} sgd_numbers;

/* Updates one register. forget = 1 - momentum. */
TH_INLINE void sgd_register(const sgd_numbers *s, vec gradient, vec *p, vec *velocity)
{
    const vec g = vec_rounded((gradient + *p * s->decay) * s->scale);
    const vec decayed = *velocity - *velocity * s->forget;
    *velocity = vec_clamp(decayed + g, -largest_real, largest_real);
    vec u = *velocity;
    if (s->nesterov) {
        const vec twice_decayed = u - u * s->forget;
        u = vec_clamp(twice_decayed + g, -largest_real, largest_real);
    }
    *p = *p - u * s->rate;
}

/* All arrays (n), contiguous, updated in place. velocity: NULL without momentum. */
void TH_KERNEL(sgd)(int64_t n, void *parameter, const void *gradient, void *velocity,
                    const struct th_sgd_update *update)
{
    const bool used = update->gradient_scale != 0;
    const sgd_numbers numbers = {.scale = (real)update->gradient_scale,
                                 .decay = used ? (real)(update->weight_decay / update->gradient_scale) : 0,
                                 .forget = (real)(1 - update->momentum),
                                 .rate = (real)update->learning_rate,
                                 .nesterov = velocity && update->nesterov};
    real *ps = parameter, *us = velocity;
    const real *gs = gradient;
    int64_t i = 0;
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        vec p = vec_load(ps + i), u = us ? vec_load(us + i) : (vec){0};
        sgd_register(&numbers, vec_load(gs + i), &p, &u);
        vec_store(ps + i, p);
        if (us)
            vec_store(us + i, u);
    }
    if (i < n) {
        const int64_t rest = n - i;
        vec p = vec_load_part(ps + i, rest, 1), u = us ? vec_load_part(us + i, rest, 1) : (vec){0};
        sgd_register(&numbers, vec_load_part(gs + i, rest, 1), &p, &u);
        vec_store_part(ps + i, rest, p);
        if (us)
            vec_store_part(us + i, rest, u);
    }
}
