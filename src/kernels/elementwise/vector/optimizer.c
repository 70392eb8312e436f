/* Optimizer steps: one pass over parameters, gradients and moments, each element independently. The formulas are in
 * kernels/elementwise/optimizer_kernels.h. */
#include <float.h>

#include "kernels/elementwise/optimizer_kernels.h"
#include "kernels/vector/vector_math.h"

/* Adam limits gradient elements to adam_limit, so that squares and their weighted sums are finite. Muon limits them to
 * muon_limit, so that the sum of the squares of a matrix is finite. */
#if TH_REAL_BITS == 32
static const real adam_limit = 0x1p63F, muon_limit = 0x1p48F, largest_real = FLT_MAX;
#else
static const real adam_limit = 0x1p511, muon_limit = 0x1p480, largest_real = DBL_MAX;
#endif

/* The numbers of an update in the kernel's type. The gradient is computed as (gradient + p * decay) * scale, so that
 * the sum has only one product. */
typedef struct adam_numbers {
    real scale, decay, beta1, beta2, rate1, rate2, shrink, step_size, second_scale, eps_inside, eps_outside;
} adam_numbers;

/* Returns beta * moment + rate * x, where rate = 1 - beta. Starts from the operand with the larger weight: if beta is
 * small, rounding errors of a large moment would otherwise remain. It calls vec_mul_add, because
 * clang may move the additions of both branches behind them. */
TH_INLINE vec interpolate(vec moment, vec x, real beta, real rate)
{
    return rate <= beta ? vec_mul_add(x - moment, vec_broadcast(rate), moment)
                        : vec_mul_add(moment - x, vec_broadcast(beta), x);
}

/* Updates one register. largest: NULL without AMSGrad. vec_rounded: both branches of interpolate use the square. */
TH_INLINE void adam_register(const adam_numbers *a, vec gradient, vec *p, vec *m, vec *v, vec *largest)
{
    const vec g = vec_clamp((gradient + *p * a->decay) * a->scale, -adam_limit, adam_limit);
    *m = interpolate(*m, g, a->beta1, a->rate1);
    *v = interpolate(*v, vec_rounded(g * g), a->beta2, a->rate2);
    if (largest)
        *largest = vec_maximum(*largest, *v);
    const vec root = vec_sqrt((largest ? *largest : *v) * a->second_scale + a->eps_inside) + a->eps_outside;
    const vec shrunk = *p - *p * a->shrink;
    *p = shrunk - (*m / root) * a->step_size;
}

/* Updates arrays (n), contiguous, in place. amsgrad is a constant in each caller, so that the compiler removes
 * the largest second moments from Adam's loop. */
TH_INLINE void update_adam(int64_t n, real *parameter, const real *gradient, real *first_moment, real *second_moment,
                           real *largest, bool amsgrad, const adam_numbers *numbers)
{
    vec l = {0};
    int64_t i = 0;
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        vec p = vec_load(parameter + i), m = vec_load(first_moment + i), v = vec_load(second_moment + i);
        if (amsgrad)
            l = vec_load(largest + i);
        adam_register(numbers, vec_load(gradient + i), &p, &m, &v, amsgrad ? &l : NULL);
        vec_store(parameter + i, p);
        vec_store(first_moment + i, m);
        vec_store(second_moment + i, v);
        if (amsgrad)
            vec_store(largest + i, l);
    }
    if (i < n) {
        const int64_t rest = n - i;
        vec p = vec_load_part(parameter + i, rest, 1), m = vec_load_part(first_moment + i, rest, 1),
            v = vec_load_part(second_moment + i, rest, 1);
        if (amsgrad)
            l = vec_load_part(largest + i, rest, 1);
        adam_register(numbers, vec_load_part(gradient + i, rest, 1), &p, &m, &v, amsgrad ? &l : NULL);
        vec_store_part(parameter + i, rest, p);
        vec_store_part(first_moment + i, rest, m);
        vec_store_part(second_moment + i, rest, v);
        if (amsgrad)
            vec_store_part(largest + i, rest, l);
    }
}

/* Updates arrays (n), contiguous, in place. largest: NULL without AMSGrad. */
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
                                  .step_size = (real)update->step_size,
                                  .second_scale = (real)update->second_scale,
                                  .eps_inside = (real)update->eps_inside,
                                  .eps_outside = (real)update->eps_outside};
    if (largest)
        update_adam(n, parameter, gradient, first_moment, second_moment, largest, true, &numbers);
    else
        update_adam(n, parameter, gradient, first_moment, second_moment, NULL, false, &numbers);
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

/* Updates arrays (n), contiguous, in place. velocity: NULL without momentum. */
void TH_KERNEL(sgd)(int64_t n, void *parameter, const void *gradient, void *velocity,
                    const struct th_sgd_update *update)
{
    const bool uses_gradient = update->gradient_scale != 0;
    const sgd_numbers numbers = {.scale = (real)update->gradient_scale,
                                 .decay = uses_gradient ? (real)(update->weight_decay / update->gradient_scale) : 0,
                                 .forget = (real)(1 - update->momentum),
                                 .rate = (real)update->learning_rate,
                                 .nesterov = velocity && update->nesterov};
    real *parameters = parameter, *velocities = velocity;
    const real *gradients = gradient;
    int64_t i = 0;
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        vec p = vec_load(parameters + i), v = velocities ? vec_load(velocities + i) : (vec){0};
        sgd_register(&numbers, vec_load(gradients + i), &p, &v);
        vec_store(parameters + i, p);
        if (velocities)
            vec_store(velocities + i, v);
    }
    if (i < n) {
        const int64_t rest = n - i;
        vec p = vec_load_part(parameters + i, rest, 1),
            v = velocities ? vec_load_part(velocities + i, rest, 1) : (vec){0};
        sgd_register(&numbers, vec_load_part(gradients + i, rest, 1), &p, &v);
        vec_store_part(parameters + i, rest, p);
        if (velocities)
            vec_store_part(velocities + i, rest, v);
    }
}

typedef struct muon_numbers {
    real scale, momentum, rate;
    bool nesterov;
} muon_numbers;

/* Updates one register of the momentum. Returns the direction. rate = 1 - momentum. */
TH_INLINE vec muon_register(const muon_numbers *u, vec gradient, vec *m)
{
    const vec g = vec_clamp(gradient * u->scale, -muon_limit, muon_limit);
    *m = vec_clamp(interpolate(*m, g, u->momentum, u->rate), -muon_limit, muon_limit);
    return u->nesterov ? interpolate(*m, g, u->momentum, u->rate) : *m;
}

/* Updates the momentum (n), contiguous, in place, and replaces the gradient by the direction. */
void TH_KERNEL(muon)(int64_t n, void *gradient, void *momentum, const struct th_muon_update *update)
{
    const muon_numbers numbers = {.scale = (real)update->gradient_scale,
                                  .momentum = (real)update->momentum,
                                  .rate = (real)(1 - update->momentum),
                                  .nesterov = update->nesterov};
    real *gradients = gradient, *moments = momentum;
    int64_t i = 0;
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        vec m = vec_load(moments + i);
        vec_store(gradients + i, muon_register(&numbers, vec_load(gradients + i), &m));
        vec_store(moments + i, m);
    }
    if (i < n) {
        const int64_t rest = n - i;
        vec m = vec_load_part(moments + i, rest, 1);
        vec_store_part(gradients + i, rest, muon_register(&numbers, vec_load_part(gradients + i, rest, 1), &m));
        vec_store_part(moments + i, rest, m);
    }
}
