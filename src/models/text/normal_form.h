/* The normalization forms of Unicode (UAX 15) for texts, by utf8proc. Characters that Unicode has added since 9.0 stay
 * as they are, as in the reference library. */
#ifndef TH_MODELS_TEXT_NORMAL_FORM_H
#define TH_MODELS_TEXT_NORMAL_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "tapehead/tokenizer.h"

typedef enum th_form { TH_FORM_C, TH_FORM_D, TH_FORM_KC, TH_FORM_KD } th_form;

typedef struct th_normal_form th_normal_form;

/* Returns NULL if out of memory. */
th_normal_form *th_normal_form_new(th_form form);
/* Frees it; NULL is allowed. */
void th_normal_form_free(th_normal_form *f);
/* Appends the normalized text to `out`. A byte that is not valid UTF-8 is copied, and separates its neighbors. Time is
 * n log n for n marks in a row, and otherwise linear. Returns false if out of memory. */
bool th_normal_form_apply(th_normal_form *f, const char *text, size_t bytes, th_text *out);

#endif
