/* The engine of the class's page: the copy task (examples/copy_task/model.h) as functions that JavaScript calls in
 * WebAssembly. scripts/class.sh builds it.
 *
 *     const engine = Module._class_new(1, 16, 26, 64, 4, 32, 400, 5e-3, 0.1, 0);
 *     for (let step = 0; step < 400; step++)
 *         draw(Module._class_step(engine));
 *     console.log(Module._class_accuracy(engine, 100), Module._class_crc32c(engine).toString(16));
 *
 * Numbers are JavaScript's numbers. A text is an address: Module.UTF8ToString(address). Numbers in an array are 32-bit
 * floats at Module.HEAPF32[address / 4]. To pass a text use
 *     Module.ccall("class_write", "string", ["number", "string"], [engine, "COPYTHIS"]).
 * A text or an array is valid until the next call of the same function for the same engine.
 *
 * Errors: a function that returns a number returns NaN, a function that returns a text or an array returns 0 (NULL).
 * class_error then returns the library's sentence. An engine with an error accepts class_error and class_free only;
 * except that a sentence about a wrong argument leaves the engine as it was (class_new, class_set_*, typed sequences).
 *
 * Several engines may exist at once, for example one with a right rule and one with a wrong rule. Engines with the same
 * arguments compute the same bits, which are those of
 *     TAPEHEAD_ISA=baseline TAPEHEAD_GEMM=native copy_task --seed 1 --length 16 --vocab 26 ...
 * Only class_step and the functions class_set_* change what later steps compute.
 *
 * n is the length of a sequence, and T = 2n the number of tokens. The vocabulary has V = symbols + 1 entries, with the
 * separator. E is the width, H the number of heads, D = E / H, and B the batch. */
#ifndef CLASS_ENGINE_H
#define CLASS_ENGINE_H

#include <stdint.h>

typedef struct class_engine class_engine;

/* Which keys a query sees. */
enum {
    CLASS_MASK_CAUSAL, /* its own position and those before it: the copy task's mask */
    CLASS_MASK_NONE,   /* every position */
    CLASS_MASK_WINDOW, /* the last n positions up to its own: one too few, so that the copy cannot be learned */
    CLASS_MASKS
};

/* Creates a model and its optimizer (Adam). The arguments have these ranges, and copy_task has the defaults in brackets.
 *       seed 0 .. 2^53 [1], length 1 .. 120 [16], symbols 2 .. 62 [26], width 1 .. 4096 [64], heads 1 .. 32 [4],
 *       batch 1 .. 4096 [32], steps 0 .. 1e7 [400], rate > 0 [5e-3], 0 <= dropout < 1 [0.1], mask CLASS_MASK_* [causal]
 * The number of heads must divide the width. steps: the rate rises for 20 steps to `rate`, and falls to 0 at this step
 * along a cosine. 0: it stays at `rate`.
 * Returns NULL for a wrong argument or without memory; class_error(0) has the sentence. */
class_engine *class_new(double seed, int length, int symbols, int width, int heads, int batch, int steps, double rate,
                        double dropout, int mask);

void class_free(class_engine *engine);

/* Returns the sentence of the first error, or of the last wrong argument; "" without an error. class_error(0) is about
 * the last class_new. */
const char *class_error(const class_engine *engine);

/* Returns the library's version and what computes: "tapehead 0.3.0 compiler=... isa=simd128 gemm=native threads=1". */
const char *class_build(const class_engine *engine);

/* -- training -- */

/* Runs one step: a random batch, forward, backward, Adam. Returns the loss. */
double class_step(class_engine *engine);

/* Returns the number of steps so far. */
int class_steps(const class_engine *engine);

/* Sets the highest rate of the schedule, from the next step on. Returns it. */
double class_set_rate(class_engine *engine, double rate);

/* Returns the learning rate that the next step uses. */
double class_rate(const class_engine *engine);

/* Sets the dropout on the attention weights, from the next step on. Returns it. */
double class_set_dropout(class_engine *engine, double dropout);

/* Sets the mask, from the next step on. Returns it. */
double class_set_mask(class_engine *engine, int mask);

/* Returns the share of symbols that the model copies in this many fresh sequences, 0 .. 1. It writes each symbol from
 * its own output. The sequences are the same in every call and differ from those of training. */
double class_accuracy(class_engine *engine, int sequences);

/* As class_accuracy: the share of whole sequences without an error. */
double class_sequence_accuracy(class_engine *engine, int sequences);

/* Returns CRC-32C of all parameters, 0 .. 2^32 - 1: what copy_task prints as parameters_crc32c. */
double class_crc32c(const class_engine *engine);

/* Returns the parameters as JSON, with norms of the last step (0 before the first one).
 *     [{"name":"attention.in_proj_weight","shape":[192,64],"count":12288,"norm":6.4,"gradient":0.031,"update":0.02}]
 * norm: of the values. gradient: of dL/dparameter. update: of Adam's change. NaN is null. */
const char *class_parameters(class_engine *engine);

/* Returns the values of a parameter, "embedding.weight", in row-major order; NULL if it does not exist. */
const float *class_values(class_engine *engine, const char *parameter);

/* Returns dL/dparameter of the last step. NULL if the parameter does not exist; zeros before the first step. */
const float *class_gradients(class_engine *engine, const char *parameter);

/* -- one sequence. Its letters are the first `symbols` of A .. Z a .. z 0 .. 9; it has exactly n of them -- */

/* Returns what the model writes after reading the sequence: n letters ('|' for the separator). */
const char *class_write(class_engine *engine, const char *sequence);

/* Returns the weights of each head for this sequence, in evaluation: (H, T, T), query by key. The T tokens are the
 * sequence, the separator, and the first n - 1 letters that the model writes. Rows n .. T - 1 write. */
const float *class_attention(class_engine *engine, const char *sequence);

/* Follows one number from the embedding to the loss and back: number `element` (0 .. E - 1) of the embedding of the
 * token at `position` (0 .. T - 1), when the model reads the sequence, the separator, and the sequence without its last
 * letter, and must write the sequence. A number is used in many results. The path takes the one from which the largest
 * part of its gradient comes: through the values, or past the attention through the residual connection (not through
 * queries and keys). The names are embedding, h, then (values, mixed, projected or nothing), residual, logits, loss.
 * Evaluation: no dropout. JSON:
 *     {"loss":3.3,"tokens":"COPY|COP","path":[
 *       {"name":"embedding","formula":"h = embedding + position","index":[2,5],"axes":"TE","value":0.3,
 *        "gradient":0.002,"factor":1,"carried":0.002},
 *       ...
 *       {"name":"loss","formula":"...","index":[],"axes":"","value":3.3,"gradient":1}]}
 * value: of this number; gradient: dL/d of this number over all paths; factor: d next / d this number;
 * carried: factor times the gradient of the next number, the part of `gradient` that comes through it. The last entry
 * has no factor and no carried part. The path starts with a gradient of 0 if the mask hides the position. */
const char *class_follow(class_engine *engine, const char *sequence, int position, int element);

/* Runs forward and backward on the tokens of class_follow, in evaluation, and returns the tape with all values and
 * gradients: JSON for the viewer in src/export/page (docs/internals/pages.md). */
const char *class_tape(class_engine *engine, const char *sequence);

/* -- wrong backward rules (teaching/class/wrong_rules.h) -- */

/* Returns the number of rules. Rule 0 is "right". */
int class_rules(void);

/* Returns a rule's name, such as "sign", its mistake in words, the right formula and the wrong formula, as JSON:
 *     {"name":"sign","says":"...","operation":"scores","right":"dQ = dX K / sqrt(D)","wrong":"dQ = -dX K / sqrt(D)"}
 * NULL for another number. */
const char *class_rule(int rule);

/* The next steps train with this rule. A wrong rule changes backward only: forward computes the right values. Returns
 * rule. */
double class_set_rule(class_engine *engine, int rule);

/* Runs the gradient checker on a rule's operation, on the operation's samples; for rule 0 on all four operations.
 * Returns its sentences, some lines of text: a wrong rule's report ends with a map of the wrong elements. */
const char *class_check(class_engine *engine, int rule);

/* -- exercises (teaching/exercises) -- */

/* Marks a file of an exercise, 0 to 10, in the interpreter. `name` is the file's name in sentences. Returns the marker's
 * JSON (teaching/exercises/teacher.md), or NULL for another number or without memory. A file that ends early, for
 * example at a wrong index, leaves memory allocated: start a new instance of the module for each file. */
const char *class_mark(int exercise_number, const char *name, const char *source);

#endif
