/* Reads a regular expression as a tree. Its syntax is that of pattern_translate.c, without what an automaton cannot do:
 * it has no possessive repetition, no atomic group and nothing that looks back. What looks ahead looks at one
 * character. */
#ifndef TH_MODELS_TEXT_PATTERN_TREE_H
#define TH_MODELS_TEXT_PATTERN_TREE_H

#include <stddef.h>

#include "models/text/character_set.h"

enum { TH_MAX_TREE_NODES = 512, TH_MAX_TREE_SETS = 48, TH_ANY_COUNT = -1 };

typedef enum th_tree_kind {
    TH_TREE_EMPTY,
    TH_TREE_SET,       /* a character of a set */
    TH_TREE_AHEAD,     /* the next character is in a set */
    TH_TREE_NOT_AHEAD, /* it is not, or the text ends */
    TH_TREE_SEQUENCE,  /* first, then second */
    TH_TREE_EITHER,    /* first, or else second */
    TH_TREE_REPEAT,    /* first, least to most times */
} th_tree_kind;

typedef struct th_tree_node {
    th_tree_kind kind;
    int set, first, second;
    int least, most; /* most: perhaps TH_ANY_COUNT */
    bool lazy;       /* rather few times than many */
    bool empty;      /* it matches the empty string */
} th_tree_node;

typedef struct th_pattern_tree {
    th_tree_node node[TH_MAX_TREE_NODES];
    int nodes, root;
    th_character_set set[TH_MAX_TREE_SETS];
    int sets;
} th_pattern_tree;

/* Reads an expression that th_pattern_translate accepts and PCRE2 compiles. Returns false if it uses other syntax than
 * the above, or is too large. */
bool th_pattern_tree_read(const char *expression, size_t count, th_pattern_tree *tree);

#endif
