/* The execution of Jinja programs. */
#ifndef TH_MODELS_JINJA_RUN_H
#define TH_MODELS_JINJA_RUN_H

#include "models/jinja/syntax.h"

struct th_jinja_macro {
    const th_jinja_string *name; /* NULL: the body of a call block */
    const th_jinja_node *parameters, *body;
    th_jinja_scope *scope; /* where it was defined */
};

struct th_jinja_loop {
    th_jinja_list *items;
    size_t index;
    th_jinja_value changed; /* what loop.changed got last; a list */
};

th_jinja_value th_jinja_evaluate(th_jinja_run *run, const th_jinja_node *node);
/* Evaluates the arguments of a call. */
bool th_jinja_evaluate_arguments(th_jinja_run *run, const th_jinja_node *first, th_jinja_arguments *given);
/* Executes statements. */
void th_jinja_execute(th_jinja_run *run, const th_jinja_node *first);
/* Sets a variable of the scope. */
void th_jinja_set(th_jinja_run *run, const th_jinja_string *name, th_jinja_value value);
/* Returns the value of a variable, or of a function of the environment. */
th_jinja_value th_jinja_get(th_jinja_run *run, const th_jinja_string *name);
/* Applies a filter node to a value. */
th_jinja_value th_jinja_apply_filter(th_jinja_run *run, const th_jinja_node *filter, th_jinja_value value);
/* Applies the filters of a block to its text: the innermost filter node has no value. */
th_jinja_value th_jinja_apply_filters(th_jinja_run *run, const th_jinja_node *filter, th_jinja_value text);

/* Enters a level of nesting, which the caller takes back (run->depth--). Returns false if there are too many. */
static inline bool th_jinja_deepen(th_jinja_run *run)
{
    if (++run->depth > TH_JINJA_DEPTH)
        th_jinja_fail(run, "calls, blocks or expressions are nested deeper than %d levels", TH_JINJA_DEPTH);
    return !run->failed;
}

#endif
