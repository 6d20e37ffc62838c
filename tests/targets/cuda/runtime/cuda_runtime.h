/* The calls of CUDA's runtime that exported hosts make, on a processor. Memory lies between canaries, which cudaFree looks at;
 * kernels are found in the table that whoever includes a .cu adds behind it. */
#pragma GCC system_header
#pragma once
#include "../blocks_on_cpu.hpp"

#include <stdio.h>

typedef int cudaError_t;
typedef struct polytc_stream *cudaStream_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidDeviceFunction = 98 };
enum { cudaErrorIllegalAddress = 700, cudaErrorLaunchFailure = 719 };
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

struct polytc_kernel {
    const void *function;
    int (*launch)(const unsigned *grid, const unsigned *block, void **arguments);
};
extern const polytc_kernel polytc_kernels[];

enum { POLYTC_ROOM = 4096 };

static inline cudaError_t cudaMalloc(void **made, size_t bytes)
{
    char *whole = static_cast<char *>(aligned_alloc(256, (bytes + 2 * POLYTC_ROOM + 511) / 256 * 256));
    if (!whole) return cudaErrorMemoryAllocation;
    memset(whole, 0xff, bytes + 2 * POLYTC_ROOM);
    memcpy(whole, &bytes, sizeof bytes);
    *made = whole + POLYTC_ROOM;
    return cudaSuccess;
}

static inline cudaError_t cudaFree(void *given)
{
    if (!given) return cudaSuccess;
    char *whole = static_cast<char *>(given) - POLYTC_ROOM;
    size_t bytes;
    memcpy(&bytes, whole, sizeof bytes);
    for (size_t k = 0; k < POLYTC_ROOM; k++) {
        const bool before = k >= sizeof bytes && whole[k] != '\xff', behind = whole[POLYTC_ROOM + bytes + k] != '\xff';
        if (before || behind) {
            fprintf(stderr, "memory %s an array was written\n", before ? "before" : "behind");
            abort();
        }
    }
    free(whole);
    return cudaSuccess;
}

/* The device that is current, and the one on which everything lies; tests change them. */
static int polytc_device_here = 0, polytc_device_of_all = 0;

struct cudaPointerAttributes {
    int device;
};

static inline cudaError_t cudaGetDevice(int *device)
{
    *device = polytc_device_here;
    return cudaSuccess;
}

static inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *)
{
    found->device = polytc_device_of_all;
    return polytc_device_of_all < 0 ? cudaErrorInvalidValue : cudaSuccess;
}

static inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t)
{
    return cudaMemcpy(to, from, bytes, kind);
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

static inline const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInvalidValue ? "invalid argument" : error == cudaErrorMemoryAllocation ? "out of memory" : "failure";
}

static inline cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t, cudaStream_t)
{
    const unsigned blocks[] = {grid.x, grid.y, grid.z}, threads[] = {block.x, block.y, block.z};
    for (const polytc_kernel *k = polytc_kernels; k->function; k++)
        if (k->function == function) return k->launch(blocks, threads, arguments) ? cudaErrorLaunchFailure : cudaSuccess;
    return cudaErrorInvalidDeviceFunction;
}
