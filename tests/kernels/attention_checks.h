/* Checks of the attention kernels in any precision: against their definition in plain loops, and the promises of their
 * header. The bits are the same for every team, batch and instruction set with fused multiply-add. No bit depends on a
 * hidden pair. */
#ifndef TESTS_ATTENTION_CHECKS_H
#define TESTS_ATTENTION_CHECKS_H

#include "attention_cases.h"

/* Checks results and gradients of every machine of a list against plain loops. */
void check_values(const attention_case *c, const th_machine *machine, int machines, th_dtype dtype, double tolerance);

/* Fails unless all results of both problems have the same bits. */
void assert_same_bits(const problem *a, const problem *b, const char *what);
/* Checks that the bits are the same for every team, on every machine of a list. */
void check_teams(const attention_case *c, const th_machine *machine, int machines, th_dtype dtype);
/* Checks that each sequence of a batch has the same bits alone. Excluded: results that are summed over the batch (the
 * gradient of a broadcast mask), and dropout, whose random numbers depend on the row number. */
void check_batch(const attention_case *c, const th_machine *machine);
/* Checks that a single query with its position has the same bits as among all queries. The cache of keys and values
 * relies on this. (Dropout is excluded: it draws the numbers of another row.) */
void check_queries_alone(const attention_case *c, const th_machine *machine, th_dtype dtype);

/* Checks that hidden values affect no result: replaces rows by NaN and infinity. In float32; with `doubles` some rows
 * in float64. */
void check_hidden(const attention_case *c, const th_machine *machine, int machines, bool doubles);
/* Checks that a visible NaN appears in the result. */
void check_visible_nan(const th_machine *machine);
/* Checks that queries without visible keys give 0. */
void check_queries_without_keys(const th_machine *machine);
/* Checks that four kinds of masks that hide the same pairs give the same results. */
void check_kinds_of_mask(const th_machine *machine);
/* Checks that each gradient is the same if it is the only one. */
void check_each_gradient_alone(const th_machine *machine);

#endif
