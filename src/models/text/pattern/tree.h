/* Reads a regular expression as a tree. Files have Oniguruma's (Ruby's) syntax, which the reference library runs. The
 * reader accepts this part of it, and rejects all other syntax with a sentence:
 *
 *     characters, and \ before a character with a special meaning;  \t \n \r \f \v \a \e \xHH \x{H} \uHHHH;  .
 *     \s \S \d \D  \p{..} \P{..} with a general category or Han;  [..] and [^..] of these, of characters and ranges
 *     (..) (?:..) (?i:..) (?=..) (?!..) (?<=..) (?<!..) (?>..);  |;  * + ? {n} {n,} {n,m}, also lazy, * + ? possessive
 *
 * Rejected because engines disagree about them: {n,m}+, {n}?, (?i:..) of characters beyond ASCII, of [..], and of pairs
 * such as "ff", which Oniguruma also matches with one character. Rejected because no tokenizer needs them: (?i), ^, $,
 * \w, \b, \h, back references, named groups, sets within sets. */
#ifndef TH_MODELS_TEXT_PATTERN_TREE_H
#define TH_MODELS_TEXT_PATTERN_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "models/text/pattern/character_set.h"
#include "models/text/pattern/pattern.h"

enum { TH_ANY_COUNT = -1 };

typedef enum th_tree_kind {
    TH_TREE_EMPTY,
    TH_TREE_SET,        /* a character of a set */
    TH_TREE_SEQUENCE,   /* first, then second */
    TH_TREE_EITHER,     /* first, or else second */
    TH_TREE_REPEAT,     /* first, least to most times */
    TH_TREE_AHEAD,      /* first matches here; nothing is read */
    TH_TREE_NOT_AHEAD,  /* first does not match here */
    TH_TREE_BEHIND,     /* first, which has a fixed length, ends here */
    TH_TREE_NOT_BEHIND, /* first does not end here */
    TH_TREE_ATOMIC,     /* first, by its preferred match only */
} th_tree_kind;

/* What a part of an expression costs: an upper bound of its steps (program.h), and the number of its atomic
 * groups and lookbehinds. */
typedef struct th_tree_cost {
    int steps, kept;
} th_tree_cost;

typedef struct th_tree_node {
    th_tree_kind kind;
    int set, first, second; /* nodes have smaller numbers than the node that contains them */
    int least, most;        /* most: perhaps TH_ANY_COUNT */
    bool lazy;              /* rather few times than many */
    bool empty;             /* it can match the empty string */
    int length;             /* in characters; -1 if it varies */
    th_tree_cost cost;      /* alone */
    th_tree_cost repeated;  /* in a repetition whose body can match the empty string */
} th_tree_node;

/* Initialize it with zeros. */
typedef struct th_pattern_tree {
    th_tree_node *node; /* [nodes] */
    size_t nodes, capacity;
    int root;
    th_character_sets sets;
} th_pattern_tree;

/* Reads an expression. Returns false with a sentence in reason, which is "" if out of memory. The caller releases the
 * tree in each case. */
bool th_pattern_tree_read(const char *expression, size_t count, th_pattern_tree *tree, char reason[TH_PATTERN_REASON]);
/* Releases the memory. */
void th_pattern_tree_release(th_pattern_tree *tree);

#endif
