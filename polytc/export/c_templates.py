"""The C files of a folder for CPUs, as templates: @NAME@ and the like are filled in by c_host."""

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

/* Makes one@WEIGHTS@; NULL without memory@UNREAD@. */
@NAME@ *@NAME@_create(const char *folder);

/* Bytes of argument `number`, counted from 0. */
size_t @NAME@_bytes(int number@SIZES@);

/* One run; 0, or 1 if there is no memory@POSITIVE@. One at a time for each object.
 * Loops run in parallel where the code is compiled for OpenMP. */
int @NAME@_run(@NAME@ *self@SIZES@, @POINTERS@);

/* Frees everything; NULL is allowed. */
void @NAME@_release(@NAME@ *self);

#ifdef __cplusplus
}
#endif
#endif
'''

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

@ALIGNED@@NAME@ *@NAME@_create(const char *folder)
{
    @NAME@ *self = calloc(1, sizeof *self);
@READ@    return self;
}

@FLOORDIV@size_t @NAME@_bytes(int number@SIZES@)
{
    const size_t bytes[] = {@BYTES@};
    return number >= 0 && number < @COUNT@ ? bytes[number] : 0;
}

int @NAME@_run(@NAME@ *self@SIZES@, @POINTERS@)
{
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

READ = '''\
    char path[4096];
    FILE *file;
    size_t got;
    if (!self) return NULL;
    self->weights = malloc(@BYTES@u + 64);
    if (!self->weights || snprintf(path, sizeof path, "%s/@NAME@.weights", folder) >= (int)sizeof path) {
        @NAME@_release(self);
        return NULL;
    }
    file = fopen(path, "rb");
    got = file ? fread(aligned(self->weights), 1, @BYTES@u, file) : 0;
    if (file) fclose(file);
    if (got != @BYTES@u) {
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
        if (!self->memory) return 1;
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
    int k;
    if (misused(argc, argv)) return 1;
    self = @NAME@_create(argv[1]);
    if (!self) return fail(argv[1], "there is no memory, or the weights cannot be read");
    for (k = 0; k < COUNT; k++) {
        bytes[k] = @NAME@_bytes(k@SIZES@);
        data[k] = loaded(&about[k], file_of(argc, argv, k), bytes[k]);
        if (!data[k]) return 1;
    }
    if (@NAME@_run(self@SIZES@@VALUES@)) return fail("run", "there is no memory, or a size is not positive");
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
