/* A program of the fuzz target `graph`: leaves and lines, decoded from bytes. Every byte string is a program.
 *
 * Letters of axes: 'B' sequence, 'T' token, 'S' token of a second text (the memory of cross attention), ' ' any other
 * axis. They say how a part of the program runs by itself: one sequence alone, without its padding, some tokens with a
 * cache, or one document of a sequence. */
#ifndef TESTS_FUZZ_GRAPH_PROGRAM_H
#define TESTS_FUZZ_GRAPH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tapehead/tapehead.h"

enum { MAX_LEAVES = 40, MAX_LINES = 24, MAX_VALUES = 120, MAX_OPERANDS = 8, MAX_OUTPUTS = 4, MAX_BATCH = 3 };
enum { NUMBERS = 16, LABEL = 96, MAX_ELEMENTS = 60000, MAX_TOKENS = 256 };

/* What a value is. */
typedef enum content {
    REAL,      /* a floating type */
    INDEX,     /* int32 or int64 in [0, limit) */
    BOOL,      /* random */
    POSITIONS, /* int64: the token's index */
    LENGTHS,   /* int64 (B): the number of tokens of each sequence */
    MEMORY_LENGTHS,
    DOCUMENTS, /* int64 (T) or (B, T): the number of the token's document */
    PLACES     /* int64 (T) or (B, T): the token's index in its document */
} content;

/* The parts of a program that can run by themselves with the same bits. */
enum { ALONE = 1, TRIM = 2, PIECES = 4, DOCUMENT = 8, ALL_TRACKS = 15 };

typedef struct shape {
    int ndim;
    int64_t size[TH_MAX_DIMS];
    char letter[TH_MAX_DIMS]; /* of each axis */
} shape;

typedef struct value {
    content content;
    bool wide;     /* an index of int64 */
    int64_t limit; /* of INDEX */
    shape shape;
    int leaf, line; /* where it comes from; the other is -1 */
    unsigned tracks;
    bool differentiable; /* a gradient can reach a leaf through it */
    bool ignored;        /* of INDEX: one in four is -100 */
} value;

typedef struct leaf {
    int value;
    bool gradient;
    uint32_t seed;
    double scale;
} leaf;

typedef struct line {
    int kind;                     /* index into graph_kinds */
    int operand[MAX_OPERANDS];    /* values; -1: none */
    int operands, first, outputs; /* values first .. first + outputs - 1 are its outputs */
    int64_t n[NUMBERS];
    double x[4];
    char label[LABEL]; /* for the listing */
    bool no_grad;      /* built between th_no_grad_begin and th_no_grad_end */
    bool dropped;      /* left out: a smaller program, or an operation that refused its operands */
    bool random;       /* draws numbers in training */
} line;

/* Lines first .. end - 1 are in a scope. */
typedef struct region {
    int first, end;
    bool recomputed;
} region;

typedef struct program {
    leaf leaf[MAX_LEAVES];
    line line[MAX_LINES];
    value value[MAX_VALUES];
    region region[2];
    int leaves, lines, values, regions;
    int64_t batch, tokens, memory, width, heads;         /* the usual sizes */
    int64_t length[MAX_BATCH], memory_length[MAX_BATCH]; /* of each sequence */
    bool same_documents;                                 /* all sequences are divided into documents as the first one */
    bool begins[MAX_BATCH][MAX_TOKENS];                  /* a document begins at this token */
    th_precision precision;
    th_dtype dtype;
    bool training, kinks; /* kinks: the value may have no derivative */
    int ending;           /* how it calls backward */
    int sequence_way;     /* how attention runs in the comparisons of sequences */
    int threads;
    uint32_t seed; /* of piece sizes, layouts */
} program;

/* -- decoding -- */

typedef struct decoder {
    const uint8_t *data;
    size_t size, at;
    program *p;
    line *line;
} decoder;

/* Leaves out a line, and those that need its outputs. */
void program_drop(program *p, int index);
/* Returns the token after the document that begins at `first` of a sequence. */
int64_t document_end(const program *p, int64_t sequence, int64_t first);
/* Decodes a program. */
void program_decode(program *p, const uint8_t *data, size_t size);
/* Returns a number below `below` from the next bytes; 0 after the last one. */
uint32_t draw(decoder *d, uint32_t below);
/* Returns true once in n draws. */
bool chance(decoder *d, uint32_t n);
/* Returns one of the usual or of some other small sizes. */
int64_t draw_size(decoder *d);
/* Returns a random axis of a shape; -1 for a scalar. */
int draw_axis(decoder *d, const shape *s);

/* Returns a shape with these letters: 'b' (batch), 't' (tokens), 's' (memory), 'e' (width), 'h' (heads), '1'. */
shape shape_of(const decoder *d, const char *axes);
shape shape_add(shape s, char letter, int64_t size);
int64_t shape_count(const shape *s);
bool shape_same(const shape *a, const shape *b);
/* Removes or inserts an axis. */
shape shape_without(shape s, int axis);
shape shape_with(shape s, int axis, int64_t size, char letter);
int shape_find(const shape *s, char letter);

/* Adds a leaf of this content and shape. Returns its value. */
int new_leaf(decoder *d, content what, shape s);
int new_index(decoder *d, shape s, int64_t limit);
/* Returns an existing value that `accept` accepts, or -1. */
typedef bool accept_function(const value *v, const void *user);
int find_value(decoder *d, accept_function *accept, const void *user);
/* Returns an existing REAL value of at least min and at most max dimensions, or a new leaf. */
int real_operand(decoder *d, int min, int max);
/* Returns an existing REAL value of this shape (letters included), sometimes; otherwise a new leaf. */
int real_of_shape(decoder *d, shape s);

/* Appends an operand to the line. Returns its value. */
const value *add_operand(decoder *d, int value);
/* Declares an output of the line; its tracks are those of all operands. Returns NULL if the line is full. */
value *add_output(decoder *d, content what, shape s);
/* Takes tracks away from the outputs for an axis whose elements are mixed. */
void mix_letter(value *out, char letter);

/* -- listing -- */

/* Prints the leaves and lines that are not dropped. */
void program_print(const program *p, FILE *file);
/* Writes a shape such as "(B=2, T=5, 3)". */
const char *shape_text(const shape *s, char *text, size_t size);

#endif
