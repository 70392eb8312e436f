/* The programs, by the file that has them. */
#ifndef FAILURES_SUBJECTS_H
#define FAILURES_SUBJECTS_H

#include "programs.h"

extern const program create_tensors, access_tensors, views, settings;
extern const program elementwise_operations, reductions_and_losses, products_and_indices, operations_of_the_registry;
extern const program scopes, gradients, looking_at_the_tape, many_nodes, gradient_checks, operation_check;
extern const program own_operations;
extern const program own_modules, layers, attention_of_heads, attention_layers, cache, stored_weights, lora;
extern const program blocks, classifier, gpt, llama, translator, generation, beam_search, translation;
extern const program sgd, adam, muon, converted_training, weight_averages, micro_batches, reduced_precision,
    several_threads;
extern const program shards_alone, shards_together, local_steps;
extern const program npy, whole_files, pages, pictures, profile, progress, logs;
extern const program simple_tokenizers, trained_tokenizer, loaded_tokenizer, loaded_document_tokenizer,
    merges_of_a_folder, token_files;
extern const program instruction_data, tuning_inside;
extern const program safetensors, weights_alone, checkpoints, averaged_checkpoints, resumed_training, hugging_face_gpt2,
    hugging_face_llama, sentence_embeddings, peft, gguf;

#endif
