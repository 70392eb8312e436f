/* What the trainers of tokenizers share: the counts of words, special tokens, and the merges that make tokens. A trainer
 * counts the words of a text, adds their first tokens to a queue of pairs, and learns merges. */
#ifndef TH_MODELS_TEXT_TRAINING_H
#define TH_MODELS_TEXT_TRAINING_H

#include "models/text/pair_queue.h"
#include "models/text/tokenizer.h"

/* How often each word occurs. Initialize it with the context and the operation. */
typedef struct th_word_counts {
    th_context *ctx;
    const char *operation;
    th_vocabulary words; /* different ones, in the order in which they first occur */
    int64_t *times;      /* [words.size] */
    size_t capacity;
} th_word_counts;

/* Adds to the count of a word, at most up to INT64_MAX. */
th_status th_word_counts_add_times(th_word_counts *c, const char *word, size_t bytes, int64_t times);
/* Counts a word once: a th_word_sink whose `user` is the counts. */
th_status th_word_counts_add(void *user, const char *word, size_t bytes);
/* Releases the memory. */
void th_word_counts_release(th_word_counts *c);

/* Whether the special tokens of a trainer's options can be added; sets an error if not. */
bool th_check_specials(th_context *ctx, const char *operation, const char *const *specials, int n_specials);

/* Adds the first tokens of a word to the queue. Returns false if out of memory. */
typedef bool th_queue_word(th_tokenizer *t, const th_word_counts *c, size_t word, th_pair_queue *queue);
/* Adds all words to the queue, which is then ready. Returns false if out of memory. */
bool th_queue_words(th_tokenizer *t, const th_word_counts *c, th_queue_word *queue_word, th_pair_queue *queue);

/* Replaces the most frequent pair of tokens by a token of both texts, and repeats this until the vocabulary has this size
 * or no pair is left (th_pair_queue_next). A right token loses the prefix of WordPiece (t->pieces): the pair (lo, ##w)
 * becomes low. BPE also keeps the merges. Returns false if out of memory. */
bool th_learn_merges(th_tokenizer *t, th_pair_queue *queue, int64_t vocabulary, int64_t min_frequency,
                     int64_t max_bytes);

#endif
