/* The models library, libtapehead_models: text, data, files of models, generation and logs. It needs the core
 * library (tapehead/core.h), jansson and utf8proc. Read the headers in this order. */
#ifndef TAPEHEAD_MODELS_H
#define TAPEHEAD_MODELS_H

#include "tapehead/core.h"

/* text, its tokens, windows of tokens */
#include "tapehead/tokenizer.h"

#include "tapehead/chat.h"
#include "tapehead/token_file.h"

/* examples for encoders, and batches of them */
#include "tapehead/batches.h"
#include "tapehead/text_batch.h"
#include "tapehead/text_examples.h"

/* generation */
#include "tapehead/generate.h"

/* tuning inside a program */
#include "tapehead/tune.h"

/* files of models */
#include "tapehead/checkpoint.h"
#include "tapehead/files.h"
#include "tapehead/gguf.h"
#include "tapehead/hugging_face.h"
#include "tapehead/peft.h"
#include "tapehead/safetensors.h"
#include "tapehead/sentence_embedding.h"

/* logs of a training run */
#include "tapehead/log.h"

#endif
