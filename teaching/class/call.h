/* The common part of the functions of engine.h: they are callable from JavaScript, and reject wrong arguments. */
#ifndef CLASS_CALL_H
#define CLASS_CALL_H

#include "model.h"

/* The linker keeps a function with this mark, and exports it to JavaScript. Other compilers ignore the mark. */
#ifdef __EMSCRIPTEN__
#include <emscripten.h>
#else
#define EMSCRIPTEN_KEEPALIVE
#endif

/* Begins a call: forgets the last wrong argument. Returns whether the engine can compute. */
bool begin_call(class_engine *e);

/* Stores a sentence about a wrong argument; returns NaN. */
double refuse_call(class_engine *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
