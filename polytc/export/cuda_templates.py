"""The files of a CUDA or HIP folder, as templates: @NAME@ and the like are filled in by cuda.py; @API@ is `cuda` or `hip`."""

from polytc.export.templates import HEADER_END

HEADER = '''\
/* @NAME@: @LANGUAGE@ by polytc @VERSION@, for a GPU.
 *
 * Arguments, row-major without padding; uint16_t has the bits of f16 or bf16, uint8_t bool as 0 or 1:
@ARGUMENTS@
 */
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The weights and the memory between kernels, on the device that was current when it was made. */
typedef struct @NAME@ @NAME@;

/* What a run may end in, besides 0. */
enum {
    @NAME@_NO_MEMORY = 1, /* of the host */
    @NAME@_BAD_SIZE = 2,  /* a size is below 1@BELOW@, or makes an array or a grid that is too large */
    @NAME@_SHARED = 3,    /* an array is NULL, not aligned, or one that is written shares memory with another */
    @NAME@_ELSEWHERE = 4, /* an array lies in no memory of the object's device, or this is not the current one */
    @NAME@_DEVICE = 1000  /* and above: this and the code of a call of @API@ */
};

/* What a code means. */
const char *@NAME@_error(int code);

/* Makes one@WEIGHTS@; NULL without memory or a device@UNREAD@. */
@NAME@ *@NAME@_create(const char *folder);

/* Another object@SHARED@, with memory of its own: one for each stream whose runs are to overlap, and for each thread; NULL
 * without memory. Objects of one origin are made and freed by one thread at a time. */
@NAME@ *@NAME@_clone(@NAME@ *self);

/* Is called before each launch of a kernel and, with ended = 1, after it: to record events of @API@ in the stream, which say
 * how long the kernel took. */
typedef void (*@NAME@_observer)(void *data, const char *kernel, void *stream, int ended);

/* Has all launches from now on observed; NULL: none. */
void @NAME@_observe(@NAME@ *self, @NAME@_observer observer, void *data);

@VARIANTS@/* Bytes of argument `number`, counted from 0@ZERO@. */
size_t @NAME@_bytes(int number@SIZES@);

/* Puts one run into a stream (a @API@Stream_t; NULL is the default one), on arrays of the device; 0, or a code. No array that
 * is written may share memory with another. Runs of one object share its memory: put them into one stream, and have a clone for
 * another one. Not to be called by two threads at once. */
int @NAME@_enqueue(@NAME@ *self, void *stream@SIZES@, @POINTERS@);

/* One run on arrays of the host, none of which is written and shared, which are copied to the device and back; 0, or a code. */
int @NAME@_run(@NAME@ *self@SIZES@, @POINTERS@);

''' + HEADER_END

CODE = '''\
@HEAD@
#ifndef @RTC_MACRO@ /* @RTC@ compiles the kernels alone, from this file as it is */
#include <@RUNTIME@>
#endif

@KERNELS@
#ifndef @RTC_MACRO@ /* the host */
#include "@NAME@.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct @NAME@ {
    char *weights, *memory; /* of the device */
    size_t bytes;           /* of memory */
    int device, *users;     /* of the weights */
    int forced;             /* the variant that has to run, or -1 */
    @NAME@_observer observer;
    void *observed; /* data of the observer's */
};

static int code_of(@API@Error_t error)
{
    return error == @API@Success ? 0 : @NAME@_DEVICE + static_cast<int>(error);
}

@WEIGHTS@@NAME@ *@NAME@_create(const char *folder)
{
    @NAME@ *self = static_cast<@NAME@ *>(calloc(1, sizeof *self));
@READ@    self->users = static_cast<int *>(malloc(sizeof *self->users));
    if (!self->users || @API@GetDevice(&self->device) != @API@Success) {
        @API@Free(self->weights);
        free(self->users);
        free(self);
        return NULL;
    }
    *self->users = 1;
    self->forced = -1;
    return self;
}

@NAME@ *@NAME@_clone(@NAME@ *self)
{
    @NAME@ *made = static_cast<@NAME@ *>(calloc(1, sizeof *made));
    if (!made) return NULL;
    made->weights = self->weights;
    made->device = self->device;
    made->forced = self->forced;
    made->users = self->users;
    ++*made->users;
    return made;
}

void @NAME@_observe(@NAME@ *self, @NAME@_observer observer, void *data)
{
    self->observer = observer;
    self->observed = data;
}

@FLOORDIV@@SATURATED@@MEASURE@@CHOICE@size_t @NAME@_bytes(int number@SIZES@)
{
    size_t bytes[@MEASURED@];
    return number >= 0 && number < @COUNT@ && !measure(bytes@GIVEN@) ? bytes[number] : 0;
}

const char *@NAME@_error(int code)
{
    switch (code) {
    case 0: return "success";
    case @NAME@_NO_MEMORY: return "the host has no memory";
    case @NAME@_BAD_SIZE: return "a size is below 1@BELOW@, or makes an array or a grid that is too large";
    case @NAME@_SHARED: return "an array is NULL, not aligned, or one that is written shares memory with another";
    case @NAME@_ELSEWHERE: return "an array lies in no memory of the device of this object, or that is not the current one";
    default: break;
    }
    if (code <= @NAME@_DEVICE) return "no code of this library";
    return @API@GetErrorString(static_cast<@API@Error_t>(code - @NAME@_DEVICE));
}

/* Is an array missing, not aligned, or does one that is written share memory with another? */
static int shared(void *const *given, const size_t *bytes, size_t alignment)
{
    static const char written[] = {@WRITTEN@};
    for (int a = 0; a < @COUNT@; a++) {
        const uintptr_t first = reinterpret_cast<uintptr_t>(given[a]);
        if (!given[a] || first % alignment) return 1;
        for (int b = 0; b < a; b++) {
            const uintptr_t other = reinterpret_cast<uintptr_t>(given[b]);
            if ((written[a] || written[b]) && first < other + bytes[b] && other < first + bytes[a]) return 1;
        }
    }
    return 0;
}

/* Does an array lie elsewhere than on the device of the object, or is that not the current one? */
static int elsewhere(const @NAME@ *self, void *const *given)
{
    int current = -1;
    if (@API@GetDevice(&current) != @API@Success || current != self->device) return 1;
    for (int a = 0; a < @COUNT@; a++) {
        @ATTRIBUTES@ found;
        if (@API@PointerGetAttributes(&found, given[a]) == @API@Success && found.device == self->device) continue;
        (void)@API@GetLastError();
        return 1;
    }
    return 0;
}

/* Puts a kernel into a stream, on a grid of so many blocks. */
static int launch(const @NAME@ *self, const char *name, const void *kernel, int64_t x, int64_t y, int64_t z, dim3 block,
                  void **arguments, @API@Stream_t stream)
{
    if (x <= 0 || y <= 0 || z <= 0) return 0;
    if (x > INT32_MAX || y > 65535 || z > 65535) return @NAME@_BAD_SIZE;
    const dim3 grid(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
    if (self->observer) self->observer(self->observed, name, stream, 0);
    const int error = code_of(@API@LaunchKernel(kernel, grid, block, arguments, 0, stream));
    if (self->observer && !error) self->observer(self->observed, name, stream, 1);
    return error;
}

@RUN@int @NAME@_enqueue(@NAME@ *self, void *stream@SIZES@, @POINTERS@)
{
    void *given[] = {@GIVEN_POINTERS@};
    const int64_t sizes[] = {@SIZE_NAMES@};
    size_t bytes[@MEASURED@];
    if (measure(bytes@GIVEN@)@TOO_LARGE@) return @NAME@_BAD_SIZE;
    if (shared(given, bytes, @ALIGNMENT@)) return @NAME@_SHARED;
    if (elsewhere(self, given)) return @NAME@_ELSEWHERE;
@CHOSEN@    return enqueue(self, @ENQUEUED@static_cast<@API@Stream_t>(stream), given, sizes, bytes);
}

int @NAME@_run(@NAME@ *self@SIZES@, @POINTERS@)
{
    void *given[] = {@GIVEN_POINTERS@}, *own[@COUNT@ + 1] = {NULL};
    static const char written[] = {@WRITTEN@};
    const int64_t sizes[] = {@SIZE_NAMES@};
    size_t bytes[@MEASURED@];
    int error = 0;
    if (measure(bytes@GIVEN@)@TOO_LARGE@) return @NAME@_BAD_SIZE;
    if (shared(given, bytes, 1)) return @NAME@_SHARED;
@VARIANT@    for (int k = 0; k < @COUNT@ && !error; k++) {
        error = code_of(@API@Malloc(&own[k], bytes[k]));
        if (!error) error = code_of(@API@Memcpy(own[k], given[k], bytes[k], @API@MemcpyHostToDevice));
    }
    if (!error && elsewhere(self, own)) error = @NAME@_ELSEWHERE;
    if (!error) error = enqueue(self, @ENQUEUED@NULL, own, sizes, bytes);
    if (!error) error = code_of(@API@StreamSynchronize(NULL));
    for (int k = 0; k < @COUNT@; k++) {
        if (!error && written[k]) error = code_of(@API@Memcpy(given[k], own[k], bytes[k], @API@MemcpyDeviceToHost));
        if (own[k]) @API@Free(own[k]);
    }
    return error;
}

void @NAME@_release(@NAME@ *self)
{
    if (!self) return;
    if (!--*self->users) {
        @API@Free(self->weights);
        free(self->users);
    }
    @API@Free(self->memory);
    free(self);
}
#endif
'''

ENQUEUE = '''\
/* All launches. given: the arrays; sizes: those that are not fixed; bytes: as `measure` finds them. */
static int enqueue@SUFFIX@(@NAME@ *self, @API@Stream_t stream, void **given, const int64_t *sizes, const size_t *bytes)
{
    int error = 0;
    (void)self, (void)sizes, (void)bytes, (void)stream;
@RUN@    return error;
}

'''

ENQUEUE_VARIANT = '''\
static int enqueue(@NAME@ *self, int variant, @API@Stream_t stream, void **given, const int64_t *sizes, const size_t *bytes)
{
    switch (variant) {
@CASES@    default: return enqueue_0(self, stream, given, sizes, bytes);
    }
}

'''

ALIGNED = '''\
    size_t places = 0;
    for (void *const at : given) places |= reinterpret_cast<size_t>(at);
'''

VARIANT = '''\
    const int variant = choose(self, sizes, @PLACES@);
    if (variant < 0) return @NAME@_BAD_SIZE;
'''

NO_WEIGHTS = '''\
    void *probe = NULL;
    (void)folder;
    if (self && @API@Malloc(&probe, 1) != @API@Success) {
        free(self);
        return NULL;
    }
    @API@Free(probe);
'''

READ = '''\
    char path[4096];
    FILE *file;
    size_t got;
    char *data = static_cast<char *>(malloc(@BYTES@u + 1));
    void *weights = NULL;
    if (!self || !data || snprintf(path, sizeof path, "%s/@NAME@.weights", folder) >= static_cast<int>(sizeof path)) {
        free(data);
        free(self);
        return NULL;
    }
    file = fopen(path, "rb");
    got = file ? fread(data, 1, @BYTES@u + 1, file) : 0;
    if (file) fclose(file);
    if (!are_weights(data, got) || @API@Malloc(&weights, @BYTES@u) != @API@Success
        || @API@Memcpy(weights, data, @BYTES@u, @API@MemcpyHostToDevice) != @API@Success) {
        @API@Free(weights);
        free(data);
        free(self);
        return NULL;
    }
    self->weights = static_cast<char *>(weights);
    free(data);
'''

RESERVE = '''\
    if (self->bytes < places[@COUNT@]) {
        void *memory = NULL;
        @API@Free(self->memory); /* waits for what uses it */
        self->memory = NULL;
        self->bytes = 0;
        error = code_of(@API@Malloc(&memory, places[@COUNT@]));
        if (error) return error;
        self->memory = static_cast<char *>(memory);
        self->bytes = places[@COUNT@];
    }
'''

CMAKE = '''\
cmake_minimum_required(VERSION 3.21)
project(@NAME@ LANGUAGES C @LANGUAGE@)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_library(@NAME@ @FILE@)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_features(@NAME@ PRIVATE cxx_std_14)
@FLAGS@set_target_properties(@NAME@ PROPERTIES @LANGUAGE@_ARCHITECTURES "${POLYTC_ARCHITECTURES}")
add_executable(@NAME@_main main.c)
set_target_properties(@NAME@_main PROPERTIES LINKER_LANGUAGE @LANGUAGE@)
target_link_libraries(@NAME@_main @NAME@)
'''

ARCHITECTURES = 'set(POLYTC_ARCHITECTURES "@ARCHITECTURES@" CACHE STRING "GPUs that code is made for")\n'
