"""The C files of a folder for CPUs, as templates: @NAME@ and the like are filled in by c_host."""

from polytc.export.templates import HEADER_END

HEADER = '''\
/* @NAME@: C99 by polytc @VERSION@, for a CPU.
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

/* The weights, and the memory between kernels. */
typedef struct @NAME@ @NAME@;

/* What a run may end in. */
enum {
    @NAME@_NO_MEMORY = 1,
    @NAME@_BAD_SIZE = 2, /* a size is below 1@BELOW@, or makes an array of more bytes than memory has */
    @NAME@_SHARED = 3    /* an array is NULL, or one that is written shares memory with another */
};

/* What a code means. */
const char *@NAME@_error(int code);

/* Makes one@WEIGHTS@; NULL without memory@UNREAD@. */
@NAME@ *@NAME@_create(const char *folder);

/* Bytes of argument `number`, counted from 0@ZERO@. */
size_t @NAME@_bytes(int number@SIZES@);

/* One run; 0, or one of the codes above. No array that is written may share memory with another. One at a time for each object.
 * Loops run in parallel where the code is compiled for OpenMP. */
int @NAME@_run(@NAME@ *self@SIZES@, @POINTERS@);

''' + HEADER_END

CODE = '''\
@HEAD@
#include "@NAME@.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>
#undef I

@KERNELS@
struct @NAME@ {
    char *weights, *memory; /* as they came from malloc */
    size_t bytes;           /* of memory */
};

@ALIGNED@@WEIGHTS@@NAME@ *@NAME@_create(const char *folder)
{
    @NAME@ *self = calloc(1, sizeof *self);
@READ@    return self;
}

@FLOORDIV@@SATURATED@@MEASURE@size_t @NAME@_bytes(int number@SIZES@)
{
    size_t bytes[@MEASURED@];
    return number >= 0 && number < @COUNT@ && !measure(bytes@GIVEN@) ? bytes[number] : 0;
}

const char *@NAME@_error(int code)
{
    switch (code) {
    case 0: return "success";
    case @NAME@_NO_MEMORY: return "there is no memory";
    case @NAME@_BAD_SIZE: return "a size is below 1@BELOW@, or makes an array of more bytes than memory has";
    case @NAME@_SHARED: return "an array is NULL, or one that is written shares memory with another";
    default: return "no code of this library";
    }
}

/* Is an array missing, or does one that is written share memory with another? */
static int shared(const void *const *given, const size_t *bytes)
{
    static const char written[] = {@WRITTEN@};
    int a, b;
    for (a = 0; a < @COUNT@; a++) {
        if (!given[a]) return 1;
        for (b = 0; b < a; b++)
            if ((written[a] || written[b]) && (uintptr_t)given[a] < (uintptr_t)given[b] + bytes[b]
                && (uintptr_t)given[b] < (uintptr_t)given[a] + bytes[a]) return 1;
    }
    return 0;
}

int @NAME@_run(@NAME@ *self@SIZES@, @POINTERS@)
{
    const void *const given[] = {@POINTER_NAMES@};
    size_t bytes[@MEASURED@];
    if (measure(bytes@GIVEN@)) return @NAME@_BAD_SIZE;
    if (shared(given, bytes)) return @NAME@_SHARED;
@RUN@    return 0;
}

void @NAME@_release(@NAME@ *self)
{
    if (!self) return;
    free(self->weights);
    free(self->memory);
    free(self);
}
'''

MEASURE = '''\
/* Bytes of the arguments, then of the buffers between kernels; 1 if they are too many, or a size is none. */
static int measure(size_t *bytes@SIZES@)
{
    const int64_t most = (int64_t)1 << 46;
    int k;
@NONE@    const int64_t found[] = {@BYTES@};
    for (k = 0; k < @MEASURED@; k++) {
        if (found[k] > most || (uint64_t)found[k] > SIZE_MAX / 2) return 1;
        bytes[k] = (size_t)found[k];
    }
    return 0;
}

'''

READ = '''\
    char path[4096];
    FILE *file;
    size_t got;
    if (!self) return NULL;
    self->weights = malloc(@BYTES@u + 64); /* one cache line more, for `aligned` */
    if (!self->weights || snprintf(path, sizeof path, "%s/@NAME@.weights", folder) >= (int)sizeof path) {
        @NAME@_release(self);
        return NULL;
    }
    file = fopen(path, "rb");
    got = file ? fread(aligned(self->weights), 1, @BYTES@u, file) : 0;
    if (file && fgetc(file) != EOF) got = 0;
    if (file) fclose(file);
    if (!are_weights(aligned(self->weights), got)) {
        @NAME@_release(self);
        return NULL;
    }
'''

ALIGNED = '''\
/* The first address in what malloc gave that lies on a cache line. */
static char *aligned(char *given)
{
    return given + (64 - (uintptr_t)given % 64) % 64;
}

'''

RESERVE = '''\
    if (self->bytes < @BYTES@) {
        free(self->memory);
        self->memory = malloc(@BYTES@ + 64);
        self->bytes = self->memory ? @BYTES@ : 0;
        if (!self->memory) return @NAME@_NO_MEMORY;
    }
    memory = aligned(self->memory);
'''

MAIN = '''\
/* main FOLDER@USAGE@ [FILE ...]: one run.
@COMMON@
int main(int argc, char **argv)
{
    char *data[COUNT + 1];
    size_t bytes[COUNT + 1];
    @NAME@ *self;
    int k, code;
    if (misused(argc, argv)) return 1;
    self = @NAME@_create(argv[1]);
    if (!self) return fail(argv[1], "there is no memory, or the weights cannot be read");
    for (k = 0; k < COUNT; k++) {
        bytes[k] = @NAME@_bytes(k@SIZES@);
        if (!bytes[k]) return fail("sizes", "an array has more bytes than memory has");
        data[k] = loaded(&about[k], file_of(argc, argv, k), bytes[k]);
        if (!data[k]) return 1;
    }
    code = @NAME@_run(self@SIZES@@VALUES@);
    if (code) return fail("run", @NAME@_error(code));
    for (k = 0; k < COUNT; k++)
        if (about[k].written && stored(&about[k], file_of(argc, argv, k), data[k], bytes[k])) return 1;
    for (k = 0; k < COUNT; k++) free(data[k]);
    @NAME@_release(self);
    return 0;
}
'''

FIND = '''\
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(OpenMP COMPONENTS C)
'''

LINK = '''\
target_link_libraries(@NAME@ PUBLIC m)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(@NAME@ PRIVATE @FLAGS@)
endif()
if(OpenMP_C_FOUND)
  target_link_libraries(@NAME@ PUBLIC OpenMP::OpenMP_C)
endif()
'''
