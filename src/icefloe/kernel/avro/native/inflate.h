/* Decompression of raw deflate data (RFC 1951) by libdeflate, into memory that grows, without the interpreter's lock.
 *
 * The library is found when the module is used, not when it is linked: it is in the extension module of the Python package `deflate`, which exports its
 * functions, or in the system. A call of Python for each block, which takes and returns the interpreter's lock, costs more than a small block itself; it is the
 * way only where no library is found. */

#ifndef ICEFLOE_INFLATE_H
#define ICEFLOE_INFLATE_H

#include "memory.h"

/* The functions of one library; NULL without it. */
typedef struct {
    void *(*start)(void);
    int (*inflate)(void *state, const void *data, size_t size, void *out, size_t room, size_t *appended);
    void (*end)(void *state);
} Libdeflate;

/* What one call of Python decompresses its blocks with. */
typedef struct {
    Libdeflate library;
    void *state;
} Inflater;

/* Must be called before the first use, with the interpreter's lock. */
void inflater_start(Inflater *inflater);

/* Must be called after the last use. */
void inflater_end(Inflater *inflater);

/* Appends the decompressed bytes to `out`, at most `most` of them. Bytes after the end of the data are ignored, as by Python's zlib.
 *
 * TORN for damaged data, for an end inside the data, for more than `most` bytes, and without the library: Python's zlib decides then what the data are, and
 * which error is raised. */
Outcome inflate_into(Inflater *inflater, const uint8_t *data, size_t size, size_t most, Memory *out);

#endif
