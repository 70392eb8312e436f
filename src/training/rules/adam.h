/* Options of the rules adam and adam_w, for another rule whose elements AdamW updates. */
#ifndef TH_TRAINING_RULES_ADAM_H
#define TH_TRAINING_RULES_ADAM_H

#include <stdbool.h>

typedef struct th_adam_rule_options {
    double beta1, beta2, eps;
    bool eps_inside, amsgrad;
    bool decoupled; /* AdamW: the weight decay is not added to the gradient, but shrinks the parameter */
} th_adam_rule_options;

#endif
