#include "decompress.h"

#include <dlfcn.h>

enum {
    SUCCESS = 0,
    TOO_LITTLE_ROOM = 3,
    FIRST_TIMES = 4, /* the room for the first attempt, in sizes of the compressed data: the blocks of manifests expand to less */
    LEAST_ROOM = 16 * 1024,
    MOST_TIMES = 32 * 1024, /* zstandard: 128 KiB of one byte take four bytes */
    MOST_SNAPPY_TIMES = 22, /* 64 bytes take three */
    CHECKSUM = 4,
};

/* Changed only with the interpreter's lock, and never closed, since a reader may be at work. */
static Libdeflate libdeflate;
static Libzstd libzstd;
static Libsnappy libsnappy;

/* ---- libdeflate ---- */

/* Whether the functions decompress known data to known bytes. */
static int is_libdeflate(const Libdeflate *library)
{
    static const uint8_t packed[] = {0x4b, 0x4c, 0x4a, 0x4e, 0x49, 0x4d, 0x04, 0x11, 0x00};
    static const char plain[] = "abcdeabcde";
    if (!library->start || !library->inflate || !library->end)
        return 0;
    char out[32];
    size_t appended = 0;
    void *state = library->start();
    int result = state == NULL || library->inflate(state, packed, sizeof packed, out, sizeof out, &appended);
    if (state != NULL)
        library->end(state);
    return !result && appended == sizeof plain - 1 && !memcmp(out, plain, appended);
}

static Outcome inflate_into(Decompressor *decompressor, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    const Libdeflate *library = &decompressor->libdeflate;
    if (library->inflate == NULL)
        return TORN;
    if (decompressor->inflating == NULL && (decompressor->inflating = library->start()) == NULL)
        return NO_MEMORY;
    /* Each further attempt has four times the room, since the one before has filled its own. */
    for (size_t room = size > SIZE_MAX / 8 ? most : FIRST_TIMES * size + LEAST_ROOM;; room = room > SIZE_MAX / 4 ? most : 4 * room) {
        if (memory_reserve(out, room < most ? room : most))
            return NO_MEMORY;
        size_t available = out->room - out->size, appended = 0;
        int result =
            library->inflate(decompressor->inflating, data, size, out->bytes + out->size, available < most ? available : most, &appended);
        if (result == SUCCESS) {
            out->size += appended;
            return OK;
        }
        if (result != TOO_LITTLE_ROOM || available >= most)
            return TORN;
        room = available > room ? available : room;
    }
}

/* ---- libzstd ---- */

static int is_libzstd(const Libzstd *library)
{
    static const uint8_t packed[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x0a, 0x51, 0x00, 0x00, 'a', 'b', 'c', 'd', 'e', 'a', 'b', 'c', 'd', 'e'};
    static const char plain[] = "abcdeabcde";
    if (!library->start || !library->frame_size || !library->content_size || !library->decompress || !library->end)
        return 0;
    char out[sizeof plain - 1];
    void *state = library->start();
    if (state == NULL)
        return 0;
    int fits = library->content_size(packed, sizeof packed) == sizeof out && library->frame_size(packed, sizeof packed) == sizeof packed &&
               library->decompress(state, out, sizeof out, packed, sizeof packed) == sizeof out && !memcmp(out, plain, sizeof out);
    library->end(state);
    return fits;
}

static Outcome unpack_into(Decompressor *decompressor, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    const Libzstd *library = &decompressor->libzstd;
    if (library->decompress == NULL || size < sizeof magic || memcmp(data, magic, sizeof magic) || library->frame_size(data, size) != size)
        return TORN;
    /* The two largest numbers are the library's for a frame without a size, and for damaged ones. A frame has no more bytes than the format can pack. */
    unsigned long long claimed = library->content_size(data, size);
    if (claimed > most || claimed / MOST_TIMES > size)
        return TORN;
    if (decompressor->unpacking == NULL && (decompressor->unpacking = library->start()) == NULL)
        return NO_MEMORY;
    if (memory_reserve(out, (size_t)claimed + 1)) /* a place also for nothing */
        return NO_MEMORY;
    if (library->decompress(decompressor->unpacking, out->bytes + out->size, (size_t)claimed, data, size) != claimed)
        return TORN; /* errors are larger numbers */
    out->size += (size_t)claimed;
    return OK;
}

/* ---- libsnappy ---- */

static int is_libsnappy(const Libsnappy *library)
{
    static const char packed[] = {0x0a, 0x10, 'a', 'b', 'c', 'd', 'e', 0x05, 0x05};
    static const char plain[] = "abcdeabcde";
    char out[sizeof plain - 1];
    size_t claimed = 0, room = sizeof out;
    return library->length && library->decompress && library->length(packed, sizeof packed, &claimed) == SUCCESS && claimed == sizeof out &&
           library->decompress(packed, sizeof packed, out, &room) == SUCCESS && room == sizeof out && !memcmp(out, plain, sizeof out);
}

static Outcome unsnap_into(const Decompressor *decompressor, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    const Libsnappy *library = &decompressor->libsnappy;
    size_t claimed = 0;
    if (library->decompress == NULL || decompressor->libdeflate.crc32 == NULL || size < CHECKSUM)
        return TORN;
    size -= CHECKSUM;
    if (library->length((const char *)data, size, &claimed) != SUCCESS || claimed > most || claimed / MOST_SNAPPY_TIMES > size)
        return TORN;
    if (memory_reserve(out, claimed + 1)) /* a place also for nothing */
        return NO_MEMORY;
    size_t room = claimed;
    uint8_t *start = out->bytes + out->size;
    if (library->decompress((const char *)data, size, (char *)start, &room) != SUCCESS || room != claimed)
        return TORN;
    const uint8_t *sum = data + size; /* big endian */
    uint32_t expected = (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3];
    if (decompressor->libdeflate.crc32(0, start, claimed) != expected)
        return TORN;
    out->size += claimed;
    return OK;
}

/* ---- all ---- */

/* The library at a path of Python; NULL with a Python error if it is no path, and without one if it cannot be opened. */
static void *opened(PyObject *name)
{
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(name, &path))
        return NULL;
    void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(path);
    return library;
}

PyObject *open_libdeflate(PyObject *Py_UNUSED(module), PyObject *name)
{
    void *library = opened(name);
    if (PyErr_Occurred())
        return NULL;
    Libdeflate found = {0};
    if (library != NULL) {
        found.start = (void *(*)(void))dlsym(library, "libdeflate_alloc_decompressor");
        found.inflate = (int (*)(void *, const void *, size_t, void *, size_t, size_t *))dlsym(library, "libdeflate_deflate_decompress");
        found.end = (void (*)(void *))dlsym(library, "libdeflate_free_decompressor");
        found.crc32 = (uint32_t(*)(uint32_t, const void *, size_t))dlsym(library, "libdeflate_crc32");
    }
    int fits = is_libdeflate(&found);
    if (!fits && library != NULL)
        dlclose(library);
    libdeflate = fits ? found : (Libdeflate){0};
    return PyBool_FromLong(fits);
}

PyObject *open_libzstd(PyObject *Py_UNUSED(module), PyObject *name)
{
    void *library = opened(name);
    if (PyErr_Occurred())
        return NULL;
    Libzstd found = {0};
    if (library != NULL) {
        found.start = (void *(*)(void))dlsym(library, "ZSTD_createDCtx");
        found.frame_size = (size_t(*)(const void *, size_t))dlsym(library, "ZSTD_findFrameCompressedSize");
        found.content_size = (unsigned long long (*)(const void *, size_t))dlsym(library, "ZSTD_getFrameContentSize");
        found.decompress = (size_t(*)(void *, void *, size_t, const void *, size_t))dlsym(library, "ZSTD_decompressDCtx");
        found.end = (size_t(*)(void *))dlsym(library, "ZSTD_freeDCtx");
    }
    int fits = is_libzstd(&found);
    if (!fits && library != NULL)
        dlclose(library);
    libzstd = fits ? found : (Libzstd){0};
    return PyBool_FromLong(fits);
}

PyObject *open_libsnappy(PyObject *Py_UNUSED(module), PyObject *name)
{
    void *library = opened(name);
    if (PyErr_Occurred())
        return NULL;
    Libsnappy found = {0};
    if (library != NULL) {
        found.length = (int (*)(const char *, size_t, size_t *))dlsym(library, "snappy_uncompressed_length");
        found.decompress = (int (*)(const char *, size_t, char *, size_t *))dlsym(library, "snappy_uncompress");
    }
    int fits = is_libsnappy(&found);
    if (!fits && library != NULL)
        dlclose(library);
    libsnappy = fits ? found : (Libsnappy){0};
    return PyBool_FromLong(fits);
}

void decompressor_start(Decompressor *decompressor)
{
    *decompressor = (Decompressor){libdeflate, libzstd, libsnappy, NULL, NULL};
}

void decompressor_end(Decompressor *decompressor)
{
    if (decompressor->inflating != NULL)
        decompressor->libdeflate.end(decompressor->inflating);
    if (decompressor->unpacking != NULL)
        decompressor->libzstd.end(decompressor->unpacking);
    decompressor->inflating = decompressor->unpacking = NULL;
}

Outcome decompress_into(Decompressor *decompressor, Codec codec, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    switch (codec) {
    case DEFLATE:
        return inflate_into(decompressor, data, size, most, out);
    case ZSTANDARD:
        return unpack_into(decompressor, data, size, most, out);
    case SNAPPY:
        return unsnap_into(decompressor, data, size, most, out);
    default:
        return UNFIT;
    }
}
