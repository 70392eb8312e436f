/* A tape as a Python script (th_tape_write_python). script.c writes the script's parts in order; the functions below
 * write what is in them. The formulas are in the Python files of export/python, which the build embeds. */
#ifndef TH_EXPORT_SCRIPT_H
#define TH_EXPORT_SCRIPT_H

#include <stdio.h>

#include "export/listing.h"

/* The variable of a tensor in the script. */
typedef struct th_script_variable {
    /* A result: its node. A leaf without a name: counted from 0. Another leaf: 0, or 2, 3, ... if its name is used
     * again. */
    int64_t number;
    int output;    /* of a result: which output of the node */
    uint32_t hash; /* of a leaf's name */
    bool reached;  /* backward computes its gradient */
    /* For NumPy: 1 + the position of the operand whose rule first computes the gradient; 0: none yet. */
    int64_t first_rule;
} th_script_variable;

typedef struct th_script {
    th_listing listing;
    FILE *file;
    bool numpy;
    const th_tensor_impl *start;  /* the tensor that was differentiated; NULL: no backward ran */
    th_script_variable *variable; /* [listing.tensors] */
    size_t bytes;                 /* of variable */
} th_script;

/* -- variables.c -- */
/* Names the variables, and marks those whose gradient backward computes. Errors: TH_ERROR_MEMORY. */
th_status th_script_name_variables(th_script *script);
enum { TH_SCRIPT_NAME = TH_LISTED_NAME + 32 };
/* Writes the variable of a tensor: y12, y12_1 (output 1 of node 12), x3, p_layers_0_weight. Returns name. */
const char *th_script_variable_name(const th_script *script, int64_t tensor, char name[TH_SCRIPT_NAME]);
/* Returns whether backward reached an output of the node. */
bool th_script_is_reached(const th_script *script, int64_t node);

/* -- numbers.c: each function writes a Python expression -- */
void th_script_put_integers(FILE *file, int n, const int64_t *number);
void th_script_put_double(FILE *file, double number);
/* Writes an entry of LEAVES, VALUES or GRADIENTS: type, shape, numbers. */
void th_script_put_entry(FILE *file, const char *key, const th_array *array);
/* Writes text for a comment or a string in double quotes. */
void th_script_put_text(FILE *file, const char *text);

/* -- attributes.c -- */
/* Returns whether the scripts have formulas for an operation. */
bool th_script_supports(const th_op *op);
/* Writes the attributes of a node as further arguments: ", axis=1". The script must know its operation. */
void th_script_put_attributes(const th_script *script, int64_t node);

/* -- dropout.c -- */
/* Returns whether a node has dropout. */
bool th_script_has_dropout(const th_node *node);
/* Writes the elements that a node's dropout kept as a further argument, ", kept=given("kept12")": None if nothing is
 * dropped, and no argument if the operation has no dropout. */
void th_script_put_kept(const th_script *script, int64_t node);
/* Sets *kept to an array of bool, false where the node's dropout drops. Errors: TH_ERROR_MEMORY. */
th_status th_script_make_kept(th_script *script, const th_node *node, th_array *kept);

/* -- calls.c: the body of compute() -- */
void th_script_put_compute(th_script *script);

/* -- functions.c -- */
/* Writes the functions that the script needs, from the embedded files. */
void th_script_put_functions(const th_script *script);

#endif
