/* Attention in four operations, each with its right backward rule and with wrong ones, for the class's page. Every
 * forward computes the right values.
 *
 *     scores     S = Q Kᵀ / sqrt(D)            q (.., T, D), k (.., T, D) -> (.., T, T)
 *     softmax    A = softmax(S) under a mask   x (.., T, T), keep (T, T) bool -> (.., T, T)
 *     mix        O = A V                       a (.., T, T), v (.., T, D) -> (.., T, D)
 *     residual   Y = H + F                     h, f of one shape
 *
 * Queries and keys are the same positions, because a transposed matrix must fit for the mistakes to be possible. */
#ifndef CLASS_WRONG_RULES_H
#define CLASS_WRONG_RULES_H

#include <tapehead/tapehead.h>

typedef enum class_operation {
    CLASS_SCORES,
    CLASS_SOFTMAX,
    CLASS_MIX,
    CLASS_RESIDUAL,
    CLASS_OPERATIONS
} class_operation;

typedef struct class_wrong_rule {
    const char *name, *says; /* says: the mistake, as a sentence; "" for the right rule */
    class_operation operation;
    const char *right, *wrong; /* formulas */
} class_wrong_rule;

/* Rule 0 is right. */
extern const class_wrong_rule class_wrong_rules[];
extern const int class_wrong_rule_count;

/* Returns the operation's descriptor with this rule, if it is a rule of this operation; otherwise with the right
 * rule. */
const th_op *class_op(class_operation operation, int rule);

#endif
