/* The header of a .npy file (format 1.0) as text: a Python dictionary with the keys 'descr', 'fortran_order' and
 * 'shape'. These functions access no file. */
#ifndef TH_IO_NPY_HEADER_H
#define TH_IO_NPY_HEADER_H

#include "tapehead/base.h"

enum {
    TH_NPY_PREAMBLE = 10,         /* magic, version, length of the header */
    TH_NPY_MAX_HEADER = 10000,    /* NumPy's limit */
    TH_NPY_WRITTEN_HEADER = 1024, /* fits every header that is written, including the preamble */
    TH_NPY_PROBLEM_SIZE = 160
};

typedef struct th_npy_header {
    th_dtype dtype;
    bool fortran_order;
    th_shape shape;
} th_npy_header;

/* Parses the dictionary in text, which ends in NUL. Returns false if it does not describe a tensor exactly, and writes
 * the reason into problem (of TH_NPY_PROBLEM_SIZE bytes). */
bool th_npy_header_parse(const char *text, th_npy_header *header, char *problem);

/* Writes the preamble and the header, padded as NumPy pads them, into bytes (of TH_NPY_WRITTEN_HEADER). Returns their
 * length. */
size_t th_npy_header_format(const th_npy_header *header, char *bytes);

#endif
