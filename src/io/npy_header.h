/* The header of a .npy file (format 1.0) as text: a Python dictionary with the keys 'descr', 'fortran_order' and
 * 'shape'. No file is touched here. */
#ifndef TH_IO_NPY_HEADER_H
#define TH_IO_NPY_HEADER_H

#include "tapehead/base.h"

enum {
    TH_NPY_PREAMBLE = 10,         /* magic, version, length of the header */
    TH_NPY_MAX_HEADER = 10000,    /* as NumPy: a longer one is not read */
    TH_NPY_WRITTEN_HEADER = 1024, /* room for any that is written, preamble included */
    TH_NPY_TROUBLE = 160
};

typedef struct th_npy_header {
    th_dtype dtype;
    bool fortran_order;
    th_shape shape;
} th_npy_header;

/* Reads the dictionary in text (ending in 0). false, with what is wrong as a sentence in trouble (of TH_NPY_TROUBLE
 * bytes), when it is not exactly one that describes a tensor. */
bool th_npy_header_parse(const char *text, th_npy_header *header, char *trouble);

/* The preamble and the header, padded as NumPy pads them, into bytes (of TH_NPY_WRITTEN_HEADER); returns their
 * length. */
size_t th_npy_header_format(const th_npy_header *header, char *bytes);

#endif
