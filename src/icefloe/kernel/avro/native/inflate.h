/* Decompression of raw deflate data (RFC 1951) into memory that grows, without the interpreter's lock. */

#ifndef ICEFLOE_INFLATE_H
#define ICEFLOE_INFLATE_H

#include "memory.h"

enum {
    LITERALS = 288,  /* symbols of the code of literals and lengths, with two that fixed codes have and nothing may use */
    DISTANCES = 32,
    /* Index bits of the main tables, and entries of all tables of a code: more than any complete code needs. */
    LITERAL_BITS = 10,
    LITERAL_TABLE = 1536,
    DISTANCE_BITS = 8,
    DISTANCE_TABLE = 512,
};

/* The tables of one block's codes, made again for each block; for each symbol what its entries have in common; bytes with their bits in reverse. */
typedef struct {
    uint32_t literals[LITERAL_TABLE], distances[DISTANCE_TABLE];
    unsigned literal_bits, distance_bits;
    uint32_t of_literals[LITERALS], of_distances[DISTANCES];
    uint8_t reversed[256];
} Inflater;

/* Must be called before the first use. */
void inflater_start(Inflater *inflater);

/* Appends the decompressed bytes to `out`, at most `most` of them. Bytes after the end of the data are ignored, as by zlib.
 *
 * TORN for damaged data, for an end inside the data, and for more than `most` bytes: zlib decides then what the data are, and which error is raised. */
Outcome inflate_into(Inflater *inflater, const uint8_t *data, size_t size, size_t most, Memory *out);

#endif
