/* The numbers of leaves, parameters and cotangents of a run. */
#ifndef TESTS_FUZZ_GRAPH_LEAVES_H
#define TESTS_FUZZ_GRAPH_LEAVES_H

#include "run.h"

/* Makes leaf i of the program in a run. */
void make_leaf(run *r, int i);
/* Fills the parameters of a module, and appends them to the run's parameters. */
void fill_parameters(run *r, th_module *m);
/* Returns the seed of parameter i. */
uint32_t parameter_seed(const run *r, int i);
/* Returns the direction in which an element of a leaf or parameter is moved. */
double leaf_direction(uint32_t seed, int64_t index);
/* Returns the cotangent of a value in this run. */
array cotangent_of(const run *r, int v);
/* Returns the part of an array that takes part in this run. */
array part_in_run(const run *r, const array *whole);

#endif
