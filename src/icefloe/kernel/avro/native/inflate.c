#include "inflate.h"

#include <dlfcn.h>

enum {
    SUCCESS = 0,
    TOO_LITTLE_ROOM = 3,
    FIRST_TIMES = 4, /* the room for the first attempt, in sizes of the compressed data: the blocks of manifests expand to less */
    LEAST_ROOM = 16 * 1024,
};

/* Changed only with the interpreter's lock, and never closed, since a reader may be at work. */
static Libdeflate libdeflate;

/* Whether the functions decompress known data to known bytes. */
static int is_fit(const Libdeflate *library)
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

PyObject *open_libdeflate(PyObject *Py_UNUSED(module), PyObject *name)
{
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(name, &path))
        return NULL;
    void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(path);
    Libdeflate found = {NULL, NULL, NULL};
    if (library != NULL) {
        found.start = (void *(*)(void))dlsym(library, "libdeflate_alloc_decompressor");
        found.inflate = (int (*)(void *, const void *, size_t, void *, size_t, size_t *))dlsym(library, "libdeflate_deflate_decompress");
        found.end = (void (*)(void *))dlsym(library, "libdeflate_free_decompressor");
    }
    int fits = is_fit(&found);
    if (!fits && library != NULL)
        dlclose(library);
    libdeflate = fits ? found : (Libdeflate){NULL, NULL, NULL};
    return PyBool_FromLong(fits);
}

void inflater_start(Inflater *inflater)
{
    inflater->library = libdeflate;
    inflater->state = NULL;
}

void inflater_end(Inflater *inflater)
{
    if (inflater->state != NULL)
        inflater->library.end(inflater->state);
    inflater->state = NULL;
}

Outcome inflate_into(Inflater *inflater, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    if (inflater->library.inflate == NULL)
        return TORN;
    if (inflater->state == NULL && (inflater->state = inflater->library.start()) == NULL)
        return NO_MEMORY;
    /* Each further attempt has four times the room, since the one before has filled its own. */
    for (size_t room = size > SIZE_MAX / 8 ? most : FIRST_TIMES * size + LEAST_ROOM;; room = room > SIZE_MAX / 4 ? most : 4 * room) {
        if (memory_reserve(out, room < most ? room : most))
            return NO_MEMORY;
        size_t available = out->room - out->size, appended = 0;
        int result = inflater->library.inflate(inflater->state, data, size, out->bytes + out->size, available < most ? available : most, &appended);
        if (result == SUCCESS) {
            out->size += appended;
            return OK;
        }
        if (result != TOO_LITTLE_ROOM || available >= most)
            return TORN;
        room = available > room ? available : room;
    }
}
