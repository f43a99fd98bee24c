/* Reads and writes Avro's variable-length integers; every byte is checked against the end. A raw integer is zigzag-encoded. */

#ifndef ICEFLOE_VARINT_H
#define ICEFLOE_VARINT_H

#include "memory.h"

typedef struct {
    const uint8_t *at, *end;
} Cursor;

static inline size_t bytes_left(const Cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

/* At most ten bytes, the tenth of one bit: a longer number is refused. */
static inline Outcome read_raw(Cursor *cursor, uint64_t *raw)
{
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (cursor->at == cursor->end)
            return TORN;
        uint8_t byte = *cursor->at++;
        if (shift == 63 && byte > 1)
            return TORN;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *raw = number;
            return OK;
        }
    }
    return TORN;
}

static inline int64_t unzigzag(uint64_t raw)
{
    return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
}

/* A length that is at most the number of remaining bytes. */
static inline Outcome read_length(Cursor *cursor, size_t *length)
{
    uint64_t raw;
    if (read_raw(cursor, &raw))
        return TORN;
    if (raw & 1)
        return NEGATIVE;
    if (raw >> 1 > bytes_left(cursor))
        return TORN;
    *length = (size_t)(raw >> 1);
    return OK;
}

static inline Outcome skip_bytes(Cursor *cursor, size_t count)
{
    if (count > bytes_left(cursor))
        return TORN;
    cursor->at += count;
    return OK;
}

/* Skips `count` varints of any length. A varint ends with a byte below 128, so eight bytes end as many varints as have no high bit. */
static inline Outcome skip_varints(Cursor *cursor, uint64_t count)
{
    const uint8_t *at = cursor->at, *end = cursor->end;
    while (count >= 8 && end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t ends = (~word & UINT64_C(0x8080808080808080)) >> 7;
        count -= (ends * UINT64_C(0x0101010101010101)) >> 56; /* adds the eight bytes up into the highest */
        at += 8;
    }
    while (count) {
        if (at == end)
            return TORN;
        count -= *at++ < 128;
    }
    cursor->at = at;
    return OK;
}

enum { LONGEST_VARINT = 10 };

/* Writes at most LONGEST_VARINT bytes; how many. */
static inline size_t put_raw(uint8_t *at, uint64_t raw)
{
    size_t size = 0;
    for (; raw > 127; raw >>= 7)
        at[size++] = (uint8_t)(raw | 128);
    at[size++] = (uint8_t)raw;
    return size;
}

static inline uint64_t zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
}

static inline Outcome append_long(Memory *memory, int64_t number)
{
    if (memory_reserve(memory, LONGEST_VARINT))
        return NO_MEMORY;
    memory->size += put_raw(memory->bytes + memory->size, zigzag(number));
    return OK;
}

/* Bytes after their size. */
static inline Outcome append_sized(Memory *memory, const void *bytes, size_t size)
{
    if (size > SIZE_MAX / 2 || memory_reserve(memory, size + LONGEST_VARINT))
        return NO_MEMORY;
    uint8_t *at = memory->bytes + memory->size;
    at += put_raw(at, zigzag((int64_t)size));
    if (size)
        memcpy(at, bytes, size);
    memory->size = (size_t)(at - memory->bytes) + size;
    return OK;
}

/* Writes the size of the bytes after `body` before them, where `*kept` bytes are reserved. If the size has more or fewer bytes, the others are moved, and
 * `*kept` becomes its number of bytes, since the next size mostly has as many. */
static inline Outcome put_size_before(Memory *memory, size_t body, size_t *kept)
{
    uint8_t encoded[LONGEST_VARINT];
    size_t size = memory->size - body, head = put_raw(encoded, zigzag((int64_t)size)), start = body - *kept;
    if (head != *kept) {
        if (memory_reserve(memory, LONGEST_VARINT))
            return NO_MEMORY;
        memmove(memory->bytes + start + head, memory->bytes + body, size);
        memory->size = start + head + size;
        *kept = head;
    }
    memcpy(memory->bytes + start, encoded, head);
    return OK;
}

#endif
