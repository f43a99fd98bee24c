/* Decompression of raw deflate data (RFC 1951) by the system's zlib, into memory that grows, without the interpreter's lock.
 *
 * zlib is found when the module is used, not when it is linked: a system need not have it, and its headers need not be there to compile. A call of Python's
 * zlib for each block, which takes and returns the interpreter's lock, costs more than a small block itself; it is the way only where no zlib is found. */

#ifndef ICEFLOE_INFLATE_H
#define ICEFLOE_INFLATE_H

#include "memory.h"

/* `z_stream` of zlib.h, the same in every zlib 1; zlib refuses a stream of another size. */
typedef struct {
    const uint8_t *next_in;
    unsigned int avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned int avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned int, unsigned int);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} Stream;

/* The functions of one library; NULL without zlib. */
typedef struct {
    int (*init)(Stream *, int window_bits, const char *version, int stream_size);
    int (*inflate)(Stream *, int flush);
    int (*reset)(Stream *);
    int (*end)(Stream *);
} Zlib;

/* What one call of Python decompresses its blocks with. */
typedef struct {
    Zlib zlib;
    Stream stream;
    int started;
} Inflater;

/* Must be called before the first use, with the interpreter's lock. */
void inflater_start(Inflater *inflater);

/* Must be called after the last use. */
void inflater_end(Inflater *inflater);

/* Appends the decompressed bytes to `out`, at most `most` of them. Bytes after the end of the data are ignored, as by Python's zlib.
 *
 * TORN for damaged data, for an end inside the data, for more than `most` bytes, and without zlib: Python's zlib decides then what the data are, and which
 * error is raised. */
Outcome inflate_into(Inflater *inflater, const uint8_t *data, size_t size, size_t most, Memory *out);

#endif
