/* Decompresses raw deflate data (RFC 1951).
 *
 * No library can be linked for it: wheels of compression libraries export functions of Python only, and a system need not have a zlib. A call of such a
 * function for each block, which takes and returns the interpreter's lock, costs more than a small block itself. This code refuses what zlib refuses; what it
 * refuses is given to zlib, whose error is raised.
 *
 * A code has one main table, indexed by the next bits of the data, and a table below it for the longer code words of each prefix. A block of one manifest
 * entry has fewer than a thousand symbols, so that making tables takes half of the time. */

#include "inflate.h"

/* An entry: how many bits it consumes, with extra bits (6 bits); from bit 8 where its extra bits start, or for a table below how many bits index it (5 bits);
 * flags; from bit 16 a literal, the base of a length or a distance, or where a table below starts. */
#define CONSUMED(entry) ((entry) & 63)
#define EXTRA_AT(entry) ((entry) >> 8 & 31)
#define VALUE(entry) ((entry) >> 16)
#define LITERAL 0x8000u
#define SPECIAL 0x4000u /* no length or distance: the end of a block, a table below, or no symbol */
#define BELOW 0x2000u
#define NO_SYMBOL SPECIAL
/* What the length of a code word adds to the entry of its symbol. */
#define OF_LENGTH(length) ((length) << 8 | (length))

enum {
    LONGEST_CODE = 15,
    END_OF_BLOCK = 256,
    LONGEST_MATCH = 258,
    SPARE = 32, /* bytes after the output that a copy in words may overwrite */
};

/* ---- bits ---- */

typedef struct {
    const uint8_t *at, *end;
    uint64_t bits; /* the next bits of the data, the first one lowest; those above `held` are 0 or those of the data at `at` */
    unsigned held;
    unsigned missing; /* bytes after the end of the data that are held, as zeros */
} Bits;

static inline uint64_t little_endian(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Holds at least 56 bits. Zeros follow the data, so that no symbol needs a check; `is_overrun` finds those that were consumed. */
static inline Outcome refill(Bits *from)
{
    if (from->end - from->at >= 8) {
        from->bits |= little_endian(from->at) << from->held;
        from->at += (63 - from->held) >> 3;
        from->held |= 56;
        return OK;
    }
    for (; from->held < 56; from->held += 8) {
        if (from->at < from->end)
            from->bits |= (uint64_t)*from->at++ << from->held;
        else if (++from->missing > 8)
            return TORN;
    }
    return OK;
}

static inline int is_overrun(const Bits *from)
{
    return from->missing > from->held >> 3;
}

static inline unsigned take_bits(Bits *from, unsigned count)
{
    unsigned value = (unsigned)(from->bits & ((UINT64_C(1) << count) - 1));
    from->bits >>= count;
    from->held -= count;
    return value;
}

/* The length or distance of an entry: its base and its extra bits. */
static inline size_t take_value(Bits *from, uint32_t entry)
{
    uint64_t bits = from->bits & ((UINT64_C(1) << CONSUMED(entry)) - 1);
    from->bits >>= CONSUMED(entry);
    from->held -= CONSUMED(entry);
    return VALUE(entry) + (size_t)(bits >> EXTRA_AT(entry));
}

/* ---- codes ---- */

void inflater_start(Inflater *inflater)
{
    memset(inflater, 0, sizeof *inflater);
    static const uint8_t extras[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5};
    unsigned base = 3;
    for (unsigned symbol = 0; symbol < END_OF_BLOCK; symbol++)
        inflater->of_literals[symbol] = symbol << 16 | LITERAL;
    inflater->of_literals[END_OF_BLOCK] = END_OF_BLOCK << 16 | SPECIAL;
    for (unsigned index = 0; index < sizeof extras; base += 1u << extras[index++])
        inflater->of_literals[END_OF_BLOCK + 1 + index] = base << 16 | extras[index];
    inflater->of_literals[285] = LONGEST_MATCH << 16; /* the symbol before could have it as its last length, and is not used for it */
    inflater->of_literals[286] = inflater->of_literals[287] = NO_SYMBOL;
    base = 1;
    for (unsigned symbol = 0; symbol < 30; symbol++) {
        unsigned extra = symbol < 4 ? 0 : symbol / 2 - 1;
        inflater->of_distances[symbol] = base << 16 | extra;
        base += 1u << extra;
    }
    inflater->of_distances[30] = inflater->of_distances[31] = NO_SYMBOL;
    for (unsigned byte = 0; byte < sizeof inflater->reversed; byte++)
        for (unsigned bit = 0; bit < 8; bit++)
            inflater->reversed[byte] = (uint8_t)(inflater->reversed[byte] | (byte >> bit & 1) << (7 - bit));
}

/* The word of a canonical code as the data have it: its first bit lowest. */
static inline unsigned as_in_data(const uint8_t *reversed, unsigned word, unsigned length)
{
    return ((unsigned)reversed[word & 255] << 8 | reversed[word >> 8]) >> (16 - length);
}

/* How many bits index the table below for a prefix whose first word has `length` bits: as many as its longest word needs. `counts` are the words left. */
static unsigned bits_below(const uint16_t *counts, unsigned length, unsigned main_bits)
{
    unsigned bits = length - main_bits;
    int unused = 1 << bits;
    for (; bits + main_bits < LONGEST_CODE; bits++, unused *= 2) {
        unused -= counts[bits + main_bits];
        if (unused <= 0)
            break;
    }
    return bits;
}

/* Makes the tables of a code; `bits` is the most index bits of the main table, and becomes their number.
 *
 * As for zlib, a code must be complete, but it may have a single word of one bit, and `may_be_empty` allows no word at all. */
static Outcome make_table(const Inflater *inflater, uint32_t *table, size_t room, unsigned *bits, const uint8_t *lengths, unsigned symbols,
                          const uint32_t *of_symbols, int may_be_empty)
{
    uint16_t counts[LONGEST_CODE + 1] = {0}, more_counts[LONGEST_CODE + 1] = {0}, starts[LONGEST_CODE + 2] = {0}, used[LITERALS + 1];
    uint32_t sorted[LITERALS];
    unsigned size_of_code = 0, longest = LONGEST_CODE;
    for (unsigned symbol = 0; symbol < symbols; symbol++) { /* without a branch, which would be mispredicted half of the time */
        used[size_of_code] = (uint16_t)symbol;
        size_of_code += lengths[symbol] != 0;
    }
    for (unsigned i = 0; i + 1 < size_of_code; i += 2) { /* two counts, so that equal neighbours need not wait for each other */
        counts[lengths[used[i]]]++;
        more_counts[lengths[used[i + 1]]]++;
    }
    if (size_of_code & 1)
        counts[lengths[used[size_of_code - 1]]]++;
    for (unsigned length = 1; length <= LONGEST_CODE; length++)
        counts[length] = (uint16_t)(counts[length] + more_counts[length]);
    while (longest && !counts[longest])
        longest--;
    int unused = 1;
    for (unsigned length = 1; length <= longest; length++) {
        unused = 2 * unused - counts[length];
        if (unused < 0)
            return TORN;
        starts[length + 1] = (uint16_t)(starts[length] + counts[length]);
    }
    if ((unused && longest > 1) || (!longest && !may_be_empty))
        return TORN;
    for (unsigned i = 0; i < size_of_code; i++)
        sorted[starts[lengths[used[i]]]++] = of_symbols[used[i]];

    /* The entries of the shorter words are copied whenever the table doubles for words of one more bit. */
    const uint32_t *next = sorted;
    const uint8_t *reversed = inflater->reversed;
    unsigned word = 0, main_bits = longest < *bits ? longest : *bits, length = 0;
    size_t size = 1;
    table[0] = NO_SYMBOL;
    do {
        memcpy(table + size, table, size * sizeof *table);
        size *= 2;
        word *= 2;
        length++;
        for (unsigned count = counts[length]; count; count--)
            table[as_in_data(reversed, word++, length)] = *next++ + OF_LENGTH(length);
    } while (length < main_bits);
    *bits = main_bits = length;

    unsigned main_mask = (1u << main_bits) - 1, prefix = UINT32_MAX, index_bits = 0;
    uint32_t *below = table;
    while (++length <= longest) {
        for (word *= 2; counts[length]; counts[length]--) {
            unsigned in_data = as_in_data(reversed, word++, length);
            if ((in_data & main_mask) != prefix) {
                prefix = in_data & main_mask;
                index_bits = bits_below(counts, length, main_bits);
                below = table + size;
                table[prefix] = (uint32_t)size << 16 | SPECIAL | BELOW | index_bits << 8 | main_bits;
                size += (size_t)1 << index_bits;
                if (size > room)
                    return TORN;
            }
            uint32_t entry = *next++ + OF_LENGTH(length - main_bits);
            for (size_t i = in_data >> main_bits; i < (size_t)1 << index_bits; i += (size_t)1 << (length - main_bits))
                below[i] = entry;
        }
    }
    return OK;
}

/* `lengths` are those of the literals, and after them those of the distances. */
static Outcome make_codes(Inflater *inflater, const uint8_t *lengths, unsigned literals, unsigned distances)
{
    inflater->literal_bits = LITERAL_BITS;
    inflater->distance_bits = DISTANCE_BITS;
    if (make_table(inflater, inflater->literals, LITERAL_TABLE, &inflater->literal_bits, lengths, literals, inflater->of_literals, 0))
        return TORN;
    lengths += literals;
    return make_table(inflater, inflater->distances, DISTANCE_TABLE, &inflater->distance_bits, lengths, distances, inflater->of_distances, 1);
}

static Outcome fixed_codes(Inflater *inflater)
{
    uint8_t lengths[LITERALS + DISTANCES];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    memset(lengths + LITERALS, 5, DISTANCES);
    return make_codes(inflater, lengths, LITERALS, DISTANCES);
}

/* Reads the lengths of the words of a block's two codes, which are encoded by a third code. */
static Outcome dynamic_codes(Inflater *inflater, Bits *source)
{
    static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    enum { LENGTH_SYMBOLS = 19, LENGTH_BITS = 7, AGAIN = 16, MOST_REPEATS = 138, WORDS = 16 };
    /* A length is one symbol; three more symbols repeat the last length or 0. Bits 16 to 20 are the length or AGAIN, from bit 24 on is the least number. */
    static const uint32_t of_lengths[LENGTH_SYMBOLS] = {
        1u << 24 | 0 << 16,  1u << 24 | 1 << 16,  1u << 24 | 2 << 16,  1u << 24 | 3 << 16,  1u << 24 | 4 << 16,
        1u << 24 | 5 << 16,  1u << 24 | 6 << 16,  1u << 24 | 7 << 16,  1u << 24 | 8 << 16,  1u << 24 | 9 << 16,
        1u << 24 | 10 << 16, 1u << 24 | 11 << 16, 1u << 24 | 12 << 16, 1u << 24 | 13 << 16, 1u << 24 | 14 << 16,
        1u << 24 | 15 << 16, (3u << 24 | AGAIN << 16) + 2, (3u << 24) + 3, (11u << 24) + 7,
    };
    uint32_t table[1 << LENGTH_BITS];
    uint8_t of_code[LENGTH_SYMBOLS] = {0}, lengths[LITERALS + DISTANCES + MOST_REPEATS + WORDS];
    Bits from = *source;
    if (refill(&from))
        return TORN;
    unsigned literals = 257 + take_bits(&from, 5), distances = 1 + take_bits(&from, 5), given = 4 + take_bits(&from, 4), bits = LENGTH_BITS;
    if (literals > 286 || distances > 30)
        return TORN;
    for (unsigned i = 0; i < given; i++) {
        if (from.held < 3 && refill(&from))
            return TORN;
        of_code[order[i]] = (uint8_t)take_bits(&from, 3);
    }
    if (make_table(inflater, table, sizeof table / sizeof *table, &bits, of_code, LENGTH_SYMBOLS, of_lengths, 0))
        return TORN;
    if (bits == 1 && table[1] == NO_SYMBOL) /* a single word is allowed for the other codes only */
        return TORN;
    const unsigned mask = (1u << bits) - 1;
    unsigned known = 0, length = AGAIN;
    while (known < literals + distances) {
        if (from.held < LENGTH_BITS + 7 && refill(&from))
            return TORN;
        uint32_t entry = table[from.bits & mask];
        unsigned repeats = (unsigned)(entry >> 24), value = entry >> 16 & 31, start = EXTRA_AT(entry), consumed = CONSUMED(entry);
        repeats += take_bits(&from, consumed) >> start;
        length = value == AGAIN ? length : value;
        if (length == AGAIN) /* there is no last length yet */
            return TORN;
        memset(lengths + known, (int)length, WORDS);
        if (repeats > WORDS)
            memset(lengths + known, (int)length, repeats);
        known += repeats;
    }
    if (known > literals + distances || !lengths[END_OF_BLOCK])
        return TORN;
    *source = from;
    return make_codes(inflater, lengths, literals, distances);
}

/* ---- blocks ---- */

static Outcome stored_block(Bits *from, size_t most, size_t start, Memory *out)
{
    if (is_overrun(from))
        return TORN;
    from->at -= (from->held >> 3) - from->missing; /* whole bytes that are held are read again */
    from->bits = 0;
    from->held = from->missing = 0;
    if (from->end - from->at < 4)
        return TORN;
    size_t size = (size_t)from->at[0] | (size_t)from->at[1] << 8, inverse = (size_t)from->at[2] | (size_t)from->at[3] << 8;
    from->at += 4;
    if (size != (inverse ^ 0xffff) || size > (size_t)(from->end - from->at) || size > most - (out->size - start))
        return TORN;
    Outcome outcome = memory_append(out, from->at, size);
    from->at += size;
    return outcome;
}

/* Copies a match in words, which may write up to `SPARE` bytes after it. */
static inline void copy_match(uint8_t *to, size_t distance, size_t length)
{
    const uint8_t *from = to - distance, *end = from + length;
    if (distance >= 8) {
        do {
            uint64_t word;
            memcpy(&word, from, 8);
            memcpy(to, &word, 8);
            from += 8;
            to += 8;
        } while (from < end);
    } else if (distance == 1) {
        memset(to, *from, length);
    } else {
        while (from < end)
            *to++ = *from++;
    }
}

/* The entry of the table below for an entry of the main table, or the entry itself. */
static inline uint32_t entry_below(const uint32_t *table, uint32_t entry, Bits *from)
{
    if (!(entry & BELOW))
        return entry;
    take_bits(from, CONSUMED(entry));
    return table[VALUE(entry) + (from->bits & ((1u << EXTRA_AT(entry)) - 1))];
}

static Outcome coded_block(const Inflater *inflater, Bits *source, size_t most, size_t start, Memory *out)
{
    const uint32_t *literals = inflater->literals, *distances = inflater->distances;
    const unsigned literal_mask = (1u << inflater->literal_bits) - 1, distance_mask = (1u << inflater->distance_bits) - 1;
    Bits from = *source;
    for (int ended = 0; !ended;) {
        if (memory_reserve(out, 4 * (LONGEST_MATCH + SPARE)))
            return NO_MEMORY;
        uint8_t *base = out->bytes + start, *to = out->bytes + out->size;
        const uint8_t *last = out->bytes + out->room - (LONGEST_MATCH + SPARE + 4);
        if (last > base && (size_t)(last - base) > most) /* more would be decompressed in vain */
            last = base + most + 1;
        while (to < last) {
            if (refill(&from))
                return TORN;
            /* Two literals of the main table and a literal or length have at most 40 bits. */
            uint32_t entry = literals[from.bits & literal_mask];
            if (entry & LITERAL) {
                take_bits(&from, CONSUMED(entry));
                *to++ = (uint8_t)VALUE(entry);
                entry = literals[from.bits & literal_mask];
                if (entry & LITERAL) {
                    take_bits(&from, CONSUMED(entry));
                    *to++ = (uint8_t)VALUE(entry);
                    entry = literals[from.bits & literal_mask];
                }
            }
            if (entry & SPECIAL)
                entry = entry_below(literals, entry, &from);
            if (entry & LITERAL) {
                take_bits(&from, CONSUMED(entry));
                *to++ = (uint8_t)VALUE(entry);
                continue;
            }
            if (entry & SPECIAL) {
                if (VALUE(entry) != END_OF_BLOCK)
                    return TORN;
                take_bits(&from, CONSUMED(entry));
                ended = 1;
                break;
            }
            size_t length = take_value(&from, entry);
            if (refill(&from))
                return TORN;
            entry = distances[from.bits & distance_mask];
            if (entry & SPECIAL) {
                entry = entry_below(distances, entry, &from);
                if (entry & SPECIAL)
                    return TORN;
            }
            size_t distance = take_value(&from, entry);
            if (distance > (size_t)(to - base))
                return TORN;
            copy_match(to, distance, length);
            to += length;
        }
        out->size = (size_t)(to - out->bytes);
        if (out->size - start > most)
            return TORN;
    }
    *source = from;
    return is_overrun(source) ? TORN : OK;
}

Outcome inflate_into(Inflater *inflater, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    Bits from = {.at = data, .end = data + size};
    size_t start = out->size;
    unsigned header;
    Outcome outcome;
    do {
        outcome = refill(&from);
        if (outcome)
            break;
        header = take_bits(&from, 3);
        switch (header >> 1) {
        case 0:
            outcome = stored_block(&from, most, start, out);
            break;
        case 1:
            outcome = fixed_codes(inflater);
            outcome = outcome ? outcome : coded_block(inflater, &from, most, start, out);
            break;
        case 2:
            outcome = dynamic_codes(inflater, &from);
            outcome = outcome ? outcome : coded_block(inflater, &from, most, start, out);
            break;
        default:
            outcome = TORN;
        }
    } while (!outcome && !(header & 1));
    if (outcome)
        out->size = start;
    return outcome;
}
