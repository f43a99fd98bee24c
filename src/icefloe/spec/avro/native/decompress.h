/* Decompression of blocks into memory that grows, without the interpreter's lock: raw deflate data (RFC 1951) by libdeflate, zstandard (RFC 8878) by
 * libzstd, snappy with Avro's checksum by libsnappy and libdeflate's CRC-32.
 *
 * A library is found when the module is used, not when it is linked: libdeflate is in the extension module of the Python package `deflate`, which exports its
 * functions, and either can be in the system. A call of Python for each block, which takes and returns the interpreter's lock, costs more than a small block
 * itself; it is the way only where no library is found. */

#ifndef ICEFLOE_DECOMPRESS_H
#define ICEFLOE_DECOMPRESS_H

#include "memory.h"

/* The compression of a file's blocks. */
typedef enum { UNCOMPRESSED, DEFLATE, ZSTANDARD, SNAPPY } Codec;

/* The functions of one library; NULL without it. */
typedef struct {
    void *(*start)(void);
    int (*inflate)(void *state, const void *data, size_t size, void *out, size_t room, size_t *appended);
    void (*end)(void *state);
    uint32_t (*crc32)(uint32_t crc, const void *data, size_t size);
} Libdeflate;

typedef struct {
    void *(*start)(void);
    size_t (*frame_size)(const void *data, size_t size);
    unsigned long long (*content_size)(const void *data, size_t size);
    size_t (*decompress)(void *state, void *out, size_t room, const void *data, size_t size);
    size_t (*end)(void *state);
} Libzstd;

typedef struct {
    int (*length)(const char *data, size_t size, size_t *claimed);
    int (*decompress)(const char *data, size_t size, char *out, size_t *room);
} Libsnappy;

/* What one call of Python decompresses its blocks with. */
typedef struct {
    Libdeflate libdeflate;
    Libzstd libzstd;
    Libsnappy libsnappy;
    void *inflating, *unpacking; /* the state of each */
} Decompressor;

/* Must be called before the first use, with the interpreter's lock. */
void decompressor_start(Decompressor *decompressor);

/* Must be called after the last use. */
void decompressor_end(Decompressor *decompressor);

/* Appends the decompressed bytes to `out`, at most `most` of them. Bytes after the end of deflate data are ignored, as by Python's zlib.
 *
 * TORN for damaged data, for an end inside the data, for more than `most` bytes, for zstandard data that are not one frame with its size, for a wrong
 * checksum, and without the library: `avro_codec.py` decides then what the data are, and which error is raised. */
Outcome decompress_into(Decompressor *decompressor, Codec codec, const uint8_t *data, size_t size, size_t most, Memory *out);

#endif
