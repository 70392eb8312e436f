/* A regular expression as a program: steps that read a character, look at what is ahead or behind, or continue at two
 * steps, the preferred one first. Automata and tables run it. */
#ifndef TH_MODELS_TEXT_PATTERN_PROGRAM_H
#define TH_MODELS_TEXT_PATTERN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "models/text/pattern/character_set.h"
#include "models/text/pattern/tree.h"

typedef enum th_program_step_kind {
    TH_STEP_ACCEPT,     /* a match ends here */
    TH_STEP_READ,       /* the next character is in a set, and is read */
    TH_STEP_AHEAD,      /* the next character is in a set */
    TH_STEP_NOT_AHEAD,  /* the next character is not in the set, or the text ends */
    TH_STEP_BRANCH,     /* continue at `next`; without a match, at `other` */
    TH_STEP_LOOK,       /* there is a match from `inner` */
    TH_STEP_NOT_LOOK,   /* no match from `inner` exists */
    TH_STEP_BEHIND,     /* there is a match from `inner` which begins `length` characters before this position */
    TH_STEP_NOT_BEHIND, /* no such match exists */
    TH_STEP_ATOMIC,     /* the match from `inner` is read. If it has no characters, continue at `other` */
} th_program_step_kind;

typedef struct th_program_step {
    th_program_step_kind kind;
    int set, next, other, inner, length;
    int row; /* ATOMIC: the row of `next`; BEHIND, NOT_BEHIND: the row of `inner` */
} th_program_step;

/* Steps whose matches a table computes for all positions before it begins the next pass. The last pass has the steps
 * that are in no lookbehind. */
typedef struct th_program_pass {
    int begin, end; /* order[begin .. end-1] */
} th_program_pass;

typedef struct th_program {
    th_character_sets sets;
    th_program_step *step; /* [steps] */
    int *order; /* [steps] all steps. Without reading a character, each one continues only at steps before it */
    int steps, entry;
    /* [rows]: the steps whose matches a table keeps for every position, by their indices in `order` */
    int row[TH_MAX_PATTERN_KEPT + 1];
    int rows, entry_row;
    th_program_pass pass[TH_MAX_PATTERN_KEPT + 1]; /* [passes] */
    int passes;
    size_t behind; /* the most characters before a position that a lookbehind, with those within it, looks at */
    bool plain;    /* it has only the first five kinds of steps */
} th_program;

/* Makes the program of a tree, whose sets it takes. Returns NULL if out of memory. */
th_program *th_program_new(th_pattern_tree *tree);
/* Frees a program; NULL is allowed. */
void th_program_free(th_program *program);
/* Returns the memory of a program. */
size_t th_program_memory(const th_program *program);

#endif
