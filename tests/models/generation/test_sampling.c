/* From logits to tokens: the distributions compared with their formulas and with results of transformers' logits
 * processors, the choice of the largest, and a beam search by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/machine/machine.h"
#include "models/generation/beam_search.h"
#include "models/generation/sampling.h"
#include "suite.h"

static th_machine machine;
static double memory[4096];

static void setup(void)
{
    ck_assert_ptr_null(th_machine_detect(&machine));
}

static th_sampling sampling_of(double temperature, int64_t top_k, double top_p, double penalty)
{
    return (th_sampling){.kernels = th_kernels_for(&machine, TH_FLOAT64),
                         .temperature = temperature,
                         .top_k = top_k,
                         .top_p = top_p,
                         .repetition_penalty = penalty};
}

enum { V = 8 };
static const float logits[V] = {1.0F, -0.5F, 2.25F, 0.0F, 2.25F, -3.0F, 1.5F, 0.5F};
static const int64_t history[] = {2, 1, 2, 6};

static th_logits_row row_of(int64_t length)
{
    return (th_logits_row){logits, TH_FLOAT32, V, history, length};
}

/* Probabilities after RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper and
 * TopPLogitsWarper of transformers 5.23.0, in this order, for these logits and this history (0: removed). */
static const struct {
    double temperature, top_p, penalty;
    int64_t top_k;
    double probability[V];
} cases[] = {
    {1,
     0,
     0,
     0,
     {0.0922061542, 0.0205739739, 0.321831101, 0.0339207485, 0.321831101, 0.00168881462, 0.152022248, 0.0559258595}},
    {0.7,
     0,
     0,
     0,
     {0.0632102659, 0.00741577531, 0.376975844, 0.0151484052, 0.376975844, 0.000208499447, 0.129121308, 0.0309440579}},
    {1,
     0,
     1.3,
     0,
     {0.112131413, 0.0215348281, 0.232860785, 0.0412508414, 0.391377086, 0.00205375846, 0.130780148, 0.0680111397}},
    {1, 0, 0, 3, {0, 0, 0.404470769, 0, 0.404470769, 0, 0.191058463, 0}},
    {1, 0, 0, 1, {0, 0, 0.5, 0, 0.5, 0, 0, 0}},
    {1, 0.6, 0, 0, {0, 0, 0.5, 0, 0.5, 0, 0, 0}},
    {0.7, 0.9, 1.3, 5, {0.0904971357, 0, 0.257050931, 0, 0.53971034, 0, 0.112741592, 0}},
    {2, 0.5, 0.8, 6, {0, 0, 0.569852651, 0, 0.430147349, 0, 0, 0}},
    {1,
     0.999,
     0,
     0,
     {0.0922061542, 0.0205739739, 0.321831101, 0.0339207485, 0.321831101, 0.00168881462, 0.152022248, 0.0559258595}},
};

START_TEST(distributions_are_those_of_transformers)
{
    const th_sampling s = sampling_of(cases[_i].temperature, cases[_i].top_k, cases[_i].top_p, cases[_i].penalty);
    const th_logits_row row = row_of(cases[_i].penalty > 0 ? 4 : 0);
    th_sampling_space space = th_sampling_space_at(memory, V);
    ck_assert(th_sampling_choices(&s, &row, &space));
    double p[V] = {0}, sum = 0;
    for (int64_t i = 0; i < space.choices.count; i++)
        sum += space.choices.weight[i];
    for (int64_t i = 0; i < space.choices.count; i++)
        p[space.choices.token[i]] = space.choices.weight[i] / sum;
    for (int i = 0; i < V; i++)
        ck_assert_double_eq_tol(p[i], cases[_i].probability[i], 1e-6);
}
END_TEST

/* The same with NoRepeatNGramLogitsProcessor after the penalty and MinPLogitsWarper at the end. */
static const struct {
    th_sampling options;
    int64_t length;
    int64_t history[6];
    double probability[V];
} more_cases[] = {
    {{.temperature = 1, .min_p = 0.3}, 0, {0}, {0, 0, 0.404470772, 0, 0.404470772, 0, 0.191058457, 0}},
    {{.temperature = 2, .min_p = 0.3},
     0,
     {0},
     {0.135028422, 0, 0.252266288, 0.0818988681, 0.252266288, 0, 0.173379913, 0.105160229}},
    {{.temperature = 1, .min_p = 1}, 0, {0}, {0, 0, 0.5, 0, 0.5, 0, 0, 0}},
    {{.temperature = 0.7, .top_p = 0.95, .repetition_penalty = 1.3, .top_k = 6, .min_p = 0.2},
     4,
     {2, 1, 2, 6},
     {0, 0, 0.28262794, 0, 0.593412459, 0, 0.123959579, 0}},
    {{.temperature = 1, .no_repeat_ngram_size = 1},
     4,
     {2, 1, 2, 6},
     {0.182379618, 0, 0, 0.0670937076, 0.636567414, 0.00334039913, 0, 0.11061883}},
    {{.temperature = 1.5, .top_p = 0.9, .repetition_penalty = 1.2, .top_k = 5, .min_p = 0.1, .no_repeat_ngram_size = 1},
     4,
     {2, 1, 2, 6},
     {0.220705509, 0, 0, 0.113313995, 0.50783807, 0, 0, 0.158142418}},
    {{.temperature = 1, .no_repeat_ngram_size = 2},
     6,
     {2, 1, 2, 6, 4, 2},
     {0.111440338, 0, 0.388964981, 0.0409966074, 0.388964981, 0.00204110099, 0, 0.0675919801}},
    {{.temperature = 1, .no_repeat_ngram_size = 3},
     6,
     {2, 1, 2, 6, 1, 2},
     {0.108736515, 0.0242623948, 0.379527718, 0.0400019251, 0.379527718, 0.00199157861, 0, 0.0659520254}},
    {{.temperature = 1, .no_repeat_ngram_size = 3},
     2,
     {2, 1},
     {0.0922061503, 0.0205739718, 0.321831077, 0.0339207463, 0.321831077, 0.00168881449, 0.152022228, 0.0559258573}},
};
enum { MORE_CASES = sizeof more_cases / sizeof *more_cases };

START_TEST(distributions_with_more_options_are_those_of_transformers)
{
    th_sampling s = more_cases[_i].options;
    s.kernels = th_kernels_for(&machine, TH_FLOAT64);
    const th_logits_row row = {logits, TH_FLOAT32, V, more_cases[_i].history, more_cases[_i].length};
    th_sampling_space space = th_sampling_space_at(memory, V);
    ck_assert(th_sampling_choices(&s, &row, &space));
    double p[V] = {0}, sum = 0;
    for (int64_t i = 0; i < space.choices.count; i++)
        sum += space.choices.weight[i];
    for (int64_t i = 0; i < space.choices.count; i++)
        p[space.choices.token[i]] = space.choices.weight[i] / sum;
    for (int i = 0; i < V; i++)
        ck_assert_double_eq_tol(p[i], more_cases[_i].probability[i], 1e-6);
    for (int i = 0; i < V; i++) { /* the model's own distribution does not change */
        const double own = exp(th_log_probability(&s, &row, i, &space));
        ck_assert_double_eq_tol(own, cases[0].probability[i], 1e-7);
    }
}
END_TEST

/* u goes through the distribution: each token has its share of [0, 1). */
START_TEST(tokens_are_drawn_by_their_probabilities)
{
    enum { DRAWS = 20000 };
    const th_sampling s = sampling_of(0.9, 5, 0, 0);
    const th_logits_row row = row_of(0);
    th_sampling_space space = th_sampling_space_at(memory, V);
    int count[V] = {0};
    for (int i = 0; i < DRAWS; i++)
        count[th_sampling_token(&s, &row, (i + 0.5) / (double)DRAWS, &space)]++;
    double sum = 0;
    const int kept[5] = {0, 2, 4, 6, 7};
    for (int i = 0; i < 5; i++)
        sum += exp(logits[kept[i]] / 0.9);
    for (int i = 0; i < V; i++) {
        bool is_kept = false;
        for (int j = 0; j < 5; j++)
            is_kept |= kept[j] == i;
        ck_assert_double_eq_tol(count[i], is_kept ? (double)DRAWS * exp(logits[i] / 0.9) / sum : 0, 2);
    }
}
END_TEST

START_TEST(the_first_of_equals_is_the_largest)
{
    const th_sampling greedy = sampling_of(0, 3, 0.5, 0), penalized = sampling_of(0, 0, 0, 1.5);
    th_sampling_space space = th_sampling_space_at(memory, V);
    const th_logits_row row = row_of(4);
    ck_assert_int_eq(th_sampling_token(&greedy, &row, 0.7, &space), 2);
    ck_assert_int_eq(th_sampling_token(&penalized, &row, 0.7, &space), 4); /* 2 is in the history: 2.25 / 1.5 */
}
END_TEST

START_TEST(invalid_distributions_are_rejected)
{
    const double strange[][3] = {{1, NAN, 0}, {0, 1, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    const double half[3] = {-INFINITY, 1, -INFINITY};
    th_sampling_space space = th_sampling_space_at(memory, V);
    for (int temperature = 0; temperature < 2; temperature++) {
        const th_sampling s = sampling_of(temperature, 2, 0.9, 0);
        for (int i = 0; i < 3; i++) {
            const th_logits_row row = {strange[i], TH_FLOAT64, 3, NULL, 0};
            ck_assert_int_eq(th_sampling_token(&s, &row, 0.999, &space), -1);
            ck_assert(!th_log_probabilities(&s, &row, &space));
        }
        const th_logits_row row = {half, TH_FLOAT64, 3, NULL, 0};
        ck_assert_int_eq(th_sampling_token(&s, &row, 0.999, &space), 1);
        ck_assert_int_eq(th_sampling_token(&s, &row, 0, &space), 1);
    }
}
END_TEST

/* Logits, history, temperature, penalty, and the tokens that can be chosen. */
static const struct {
    double logits[4];
    int64_t history;
    double temperature, penalty;
    bool possible[4];
} extremes[] = {
    {{1, 3, 2, -1}, 0, 1e-320, 0, {0, 1, 0, 0}},
    {{1, 3, 2, -1}, 0, 5e-324, 0, {0, 1, 0, 0}},
    {{-5, -4, -3, -6}, 0, 1e-320, 0, {0, 0, 1, 0}},
    {{0, -1, -2, -3}, 0, 1e-320, 0, {1, 0, 0, 0}},
    {{2, 3, 3, -INFINITY}, 0, 1e-310, 0, {0, 1, 1, 0}},
    {{-INFINITY, -INFINITY, -7, -INFINITY}, 0, 1e-320, 0, {0, 0, 1, 0}},
    {{1e308, 1.7e308, -1.7e308, 0}, 0, 0.5, 0, {0, 1, 0, 0}},
    {{1e308, 1.7e308, -1.7e308, 0}, 0, 1, 0, {0, 1, 0, 0}},
    {{-1.7e308, -1.7e308, -1e308, -1.7e308}, 0, 1e-3, 0, {0, 0, 1, 0}},
    {{1, 2, 3, 4}, 0, 1e300, 0, {1, 1, 1, 1}},
    {{1, 2, 3, 4}, 1, 1, 1e-320, {0, 1, 0, 0}}, /* 2 / penalty overflows */
    {{-1, -2, -3, -4}, 0, 1, 1e308, {0, 1, 1, 1}},
    {{-1e10, -INFINITY, -INFINITY, -INFINITY}, 0, 1, 1e308, {1, 0, 0, 0}},
    {{-1e10, -INFINITY, 5, -INFINITY}, 0, 1e-320, 1e308, {0, 0, 1, 0}},
};

START_TEST(extreme_options_are_limits_of_usual_ones)
{
    const int64_t top_k[] = {0, 1, 2, 3};
    const double top_p[] = {0, 1e-320, 0.5, 1}, u[] = {0, 0.3, 0.999999};
    th_sampling_space space = th_sampling_space_at(memory, 4);
    const th_logits_row row = {extremes[_i].logits, TH_FLOAT64, 4, &extremes[_i].history, 1};
    for (int k = 0; k < 4; k++)
        for (int p = 0; p < 4; p++) {
            const th_sampling s = sampling_of(extremes[_i].temperature, top_k[k], top_p[p], extremes[_i].penalty);
            ck_assert(th_sampling_choices(&s, &row, &space));
            double sum = 0;
            for (int64_t i = 0; i < space.choices.count; i++)
                sum += space.choices.weight[i];
            ck_assert_msg(sum > 0 && isfinite(sum), "the weights' sum is %g", sum);
            for (int i = 0; i < 3; i++) {
                const int64_t token = th_sampling_token(&s, &row, u[i], &space);
                ck_assert_msg(token >= 0 && extremes[_i].possible[token], "token %d", (int)token);
            }
        }
    const th_sampling s = sampling_of(0, 0, 0, extremes[_i].penalty);
    ck_assert(extremes[_i].temperature >= 0.5 || extremes[_i].possible[th_sampling_token(&s, &row, 0, &space)]);
    ck_assert(th_log_probabilities(&s, &row, &space));
    for (int i = 0; i < 4; i++)
        ck_assert(!isnan(space.score[i]) && space.score[i] < INFINITY);
}
END_TEST

/* -- choosing among many -- */

static uint64_t state = 1;

static double coarse(int64_t values) /* with ties */
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (double)((state >> 33) % (uint64_t)values);
}

START_TEST(the_best_k_are_the_first_k_of_the_sorted_logits)
{
    enum { MAX_COUNT = 200 };
    static double score[MAX_COUNT];
    static th_ranked best[MAX_COUNT], all[MAX_COUNT];
    for (int64_t n = 0; n <= MAX_COUNT; n += 1 + n / 5)
        for (int64_t max = 0; max <= n + 1; max += 1 + max / 3) {
            double total = 0;
            for (int64_t i = 0; i < n; i++)
                total += score[i] = coarse(1 + n / 2);
            for (int64_t i = 0; i < n; i++) {
                int64_t rank = 0;
                for (int64_t j = 0; j < n; j++)
                    rank += score[j] > score[i] || (score[j] == score[i] && j < i);
                all[rank] = (th_ranked){score[i], i};
            }
            const int64_t found = th_select_best(n, score, max, best);
            ck_assert_int_eq(found, max < n ? max : n);
            for (int64_t i = 0; i < found; i++)
                ck_assert(best[i].index == all[i].index && best[i].score == all[i].score);
            /* the same set in front, compared by its sum */
            double mass = 0;
            int64_t needed = 0;
            while (needed < n && mass < total * 0.6)
                mass += all[needed++].score;
            for (int64_t i = 0; i < n; i++)
                best[i] = (th_ranked){score[i], i};
            ck_assert_int_eq(th_move_mass_to_front(n, best, total * 0.6), needed);
            int64_t sum = 0, expected = 0;
            for (int64_t i = 0; i < needed; i++) {
                sum += best[i].index * best[i].index;
                expected += all[i].index * all[i].index;
            }
            ck_assert_int_eq(sum, expected);
        }
}
END_TEST

/* -- beam search, two beams over three tokens, 2 ends -- */

START_TEST(a_beam_search_by_hand)
{
    const int64_t end = 2;
    th_beam_search s = {
        .beams = 2, .vocabulary = 3, .max_new_tokens = 4, .length_penalty = 1, .end_tokens = &end, .n_end_tokens = 1};
    int64_t source[2], length;
    double score;
    th_beam_begin(&s, memory);
    ck_assert_int_eq(th_beam_candidates(&s), 4);
    /* the first step continues from beam 0 alone; the end token is third, so it is not among the best two */
    th_beam_step(&s, 4, (const th_ranked[]){{-0.5, 1}, {-1, 0}, {-1.5, 2}, {-1e9, 4}}, source);
    ck_assert(!s.ended && s.n_finished == 0 && s.tokens[0] == 1 && s.tokens[4] == 0);
    ck_assert(source[0] == 0 && source[1] == 0);
    /* beam 0 ends first, at -0.8 / 2; beam 1 moves to the front */
    th_beam_step(&s, 4, (const th_ranked[]){{-0.8, 2}, {-1.2, 3}, {-1.4, 0}, {-2, 4}}, source);
    ck_assert(!s.ended && s.n_finished == 1 && source[0] == 1 && source[1] == 0);
    ck_assert_double_eq_tol(s.finished[0].score, -0.4, 1e-12);
    /* a second one ends, at -1.5 / 3; the best active beam, -1.6 / 3, is worse than both: the search ends */
    th_beam_step(&s, 4, (const th_ranked[]){{-1.5, 5}, {-1.6, 0}, {-1.7, 1}, {-3, 4}}, source);
    ck_assert(s.ended && s.n_finished == 2);
    const int64_t *tokens = th_beam_result(&s, 0, &length, &score);
    ck_assert(length == 2 && tokens[0] == 1 && tokens[1] == 2);
    ck_assert_double_eq_tol(score, -0.4, 1e-12);
}
END_TEST

/* Every beam can have all end tokens among its best, and one more token that continues it. */
START_TEST(candidates_suffice_for_every_end_token)
{
    static const int64_t expected[] = {6, 6, 9, 12, 15};
    for (int64_t ends = 0; ends < 5; ends++) {
        ck_assert_int_eq(th_beam_candidates(&(th_beam_search){.beams = 3, .vocabulary = 100, .n_end_tokens = ends}),
                         expected[ends]);
        ck_assert_int_eq(th_beam_candidates(&(th_beam_search){.beams = 3, .vocabulary = 2, .n_end_tokens = ends}), 6);
        ck_assert_int_eq(th_beam_candidates(&(th_beam_search){.beams = 3, .vocabulary = 1, .n_end_tokens = ends}), 3);
    }
}
END_TEST

/* With as many finished beams as there are, a search goes on while an active one is better than the worst of them,
 * unless it stops early. _i: whether it does. */
START_TEST(a_full_search_continues_while_it_can_improve)
{
    const int64_t end = 2;
    th_beam_search s = {.beams = 2,
                        .vocabulary = 3,
                        .max_new_tokens = 5,
                        .length_penalty = 1,
                        .early_stopping = _i,
                        .end_tokens = &end,
                        .n_end_tokens = 1};
    int64_t source[2], length;
    double score;
    th_beam_begin(&s, memory);
    th_beam_step(&s, 4, (const th_ranked[]){{-0.1, 2}, {-0.2, 1}, {-0.3, 0}, {-1e9, 4}}, source);
    ck_assert(!s.ended && s.n_finished == 1 && s.score[0] == -0.2 && s.score[1] == -0.3);
    /* the second end, at -0.6 / 2; the best active beam has -0.5 / 2 */
    th_beam_step(&s, 4, (const th_ranked[]){{-0.5, 0}, {-0.6, 5}, {-0.9, 4}, {-2, 1}}, source);
    ck_assert(s.n_finished == 2 && s.finished[1].length == 2);
    ck_assert_double_eq_tol(s.finished[1].score, -0.3, 1e-12);
    ck_assert_int_eq(s.ended, _i == 1);
    if (_i == 0) { /* -0.55 / 3 replaces it, and the best active beam has -0.9 / 3 */
        th_beam_step(&s, 4, (const th_ranked[]){{-0.55, 2}, {-0.9, 1}, {-1, 0}, {-3, 4}}, source);
        const int64_t *second = s.finished_tokens + s.finished[1].slot * s.max_new_tokens;
        ck_assert(s.ended && s.n_finished == 2 && s.finished[1].length == 3);
        ck_assert_double_eq_tol(s.finished[1].score, -0.55 / 3, 1e-12);
        ck_assert(second[0] == 1 && second[1] == 0 && second[2] == end);
    }
    ck_assert_int_eq(th_beam_result(&s, 0, &length, &score)[0], end);
    ck_assert(length == 1 && score == -0.1);
}
END_TEST

/* If too few candidates continue, the other beams follow the best candidates with scores that lose to any other. */
START_TEST(missing_beams_are_inactive)
{
    const int64_t end = 2;
    th_beam_search s = {
        .beams = 3, .vocabulary = 3, .max_new_tokens = 4, .length_penalty = 1, .end_tokens = &end, .n_end_tokens = 1};
    int64_t source[3] = {-1, -1, -1};
    th_beam_begin(&s, memory);
    ck_assert(s.score[0] == 0 && s.score[1] == -1e9 && s.score[2] == -1e9);
    th_beam_step(&s, 3, (const th_ranked[]){{-0.1, 5}, {-0.4, 1}, {-0.7, 8}}, source);
    ck_assert(!s.ended && s.n_finished == 2); /* (an active beam has -0.4, the worse finished one -0.7) */
    ck_assert(source[0] == 0 && source[1] == 1 && source[2] == 0);
    ck_assert(s.score[0] == -0.4 && s.score[1] == -0.1 - 1e9 && s.score[2] == -0.4 - 1e9);
    ck_assert(s.tokens[0] == 1 && s.tokens[4] == end && s.tokens[8] == 1);
}
END_TEST

/* A search that has finished nothing has its best active beam as the result. */
START_TEST(an_unfinished_search_has_a_result)
{
    th_beam_search s = {.beams = 2, .vocabulary = 3, .max_new_tokens = 4, .length_penalty = 2};
    int64_t source[2], length = -1;
    double score = -1;
    th_beam_begin(&s, memory);
    th_beam_result(&s, 0, &length, &score);
    ck_assert(length == 0 && score == 0);
    th_beam_step(&s, 4, (const th_ranked[]){{-0.5, 1}, {-1, 0}, {-1.5, 2}, {-1e9, 4}}, source);
    th_beam_step(&s, 4, (const th_ranked[]){{-0.8, 5}, {-1.2, 3}, {-1.4, 0}, {-2, 4}}, source);
    const int64_t *tokens = th_beam_result(&s, 0, &length, &score);
    ck_assert(length == 2 && tokens[0] == 0 && tokens[1] == 2);
    ck_assert_double_eq_tol(score, -0.8 / 4, 1e-12);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("sampling", setup, NULL);
    tcase_add_loop_test(tests, distributions_are_those_of_transformers, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tests, distributions_with_more_options_are_those_of_transformers, 0, MORE_CASES);
    tcase_add_test(tests, tokens_are_drawn_by_their_probabilities);
    tcase_add_test(tests, the_first_of_equals_is_the_largest);
    tcase_add_test(tests, invalid_distributions_are_rejected);
    tcase_add_loop_test(tests, extreme_options_are_limits_of_usual_ones, 0, sizeof extremes / sizeof *extremes);
    tcase_add_test(tests, the_best_k_are_the_first_k_of_the_sorted_logits);
    tcase_add_test(tests, a_beam_search_by_hand);
    tcase_add_test(tests, candidates_suffice_for_every_end_token);
    tcase_add_loop_test(tests, a_full_search_continues_while_it_can_improve, 0, 2);
    tcase_add_test(tests, missing_beams_are_inactive);
    tcase_add_test(tests, an_unfinished_search_has_a_result);
    return run_suites();
}
