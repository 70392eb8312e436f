/* The backward of exercise 10, which its file declares. It solves exercise 9: do that one first.
 *
 * Forward saved log_sum_t = log sum_j exp(s_tj), so p_tj = exp(s_tj - log_sum_t) is one line. The sum over j of dp_tj
 * p_tj is do_t o_t, the form that fused attention uses; o is computed again from p. */
#include <math.h>

#include "marker.h"

void given_running_backward(const th_call *c);
void given_running_backward(const th_call *c)
{
    enum { SCORES, V };
    const th_array *s = &c->input[SCORES], *v = &c->input[V], *log_sum = &c->output[1];
    const th_array *dout = &c->output_gradient[0], *ds = &c->input_gradient[SCORES], *dv = &c->input_gradient[V];
    const int64_t T = s->size[0], S = s->size[1], D = v->size[1];
    const bool need_ds = start_gradient(c, SCORES), need_dv = start_gradient(c, V);
    for (int64_t t = 0; t < T; t++) {
        double mean = 0; /* sum_j p_tj dp_tj */
        for (int64_t j = 0; j < S; j++)
            for (int64_t d = 0; d < D && at(s, t, j) > -INFINITY; d++)
                mean += exp(at(s, t, j) - at(log_sum, t)) * at(dout, t, d) * at(v, j, d);
        for (int64_t j = 0; j < S; j++) {
            if (at(s, t, j) == -INFINITY)
                continue;
            const double p = exp(at(s, t, j) - at(log_sum, t));
            double dp = 0;
            for (int64_t d = 0; d < D; d++)
                dp += at(dout, t, d) * at(v, j, d);
            if (need_ds)
                at(ds, t, j) += p * (dp - mean);
            for (int64_t d = 0; d < D && need_dv; d++)
                at(dv, j, d) += p * at(dout, t, d);
        }
    }
}
