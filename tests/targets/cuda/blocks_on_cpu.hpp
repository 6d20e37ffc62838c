/* CUDA C on a processor: blocks one after another, the threads of a block as fibers that switch at barriers.
 *
 * Fibers run in the order of their numbers in every other block, backwards in the others, so that a missing barrier shows.
 * Shared memory holds NaN (or -1) when a block begins. */
#pragma GCC system_header
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __launch_bounds__(n)
#define __shared__ static __attribute__((section("polytc_shared")))

extern char __start_polytc_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_polytc_shared[] __attribute__((weak, visibility("hidden")));

struct polytc_index {
    unsigned x, y, z;
};
polytc_index threadIdx, blockIdx, gridDim, blockDim;

static inline float __int_as_float(int bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Threads switch at barriers alone, so that what they do between these is one step. */
#define POLYTC_ATOMIC(name, type, result) \
    static inline type name(type *address, type b) \
    { \
        const type a = *address; \
        *address = static_cast<type>(result); \
        return a; \
    }
#define POLYTC_ATOMICS(type) \
    POLYTC_ATOMIC(atomicAdd, type, static_cast<unsigned>(a) + static_cast<unsigned>(b)) \
    POLYTC_ATOMIC(atomicMin, type, a < b ? a : b) \
    POLYTC_ATOMIC(atomicMax, type, a > b ? a : b) \
    POLYTC_ATOMIC(atomicAnd, type, a & b) \
    POLYTC_ATOMIC(atomicOr, type, a | b) \
    POLYTC_ATOMIC(atomicXor, type, a ^ b)
POLYTC_ATOMICS(int)
POLYTC_ATOMICS(unsigned)

struct polytc_fiber {
    ucontext_t context;
    char *stack;
    polytc_index number;
    int state; /* 0: runs or may run, 1: waits at a barrier, 2: is done */
};

enum { POLYTC_MOST = 1024, POLYTC_STACK = 1 << 17 };
static polytc_fiber polytc_fibers[POLYTC_MOST], *polytc_current;
static ucontext_t polytc_scheduler;
static void (*polytc_body)(void *);
static void *polytc_arguments;

static void polytc_leave(int state)
{
    polytc_fiber *own = polytc_current;
    own->state = state;
    swapcontext(&own->context, &polytc_scheduler);
}

static inline void __syncthreads(void)
{
    polytc_leave(1);
}

static void polytc_begin(void)
{
    polytc_body(polytc_arguments);
    polytc_leave(2);
}

/* Runs a block; 0, or 1 where some threads wait at a barrier that others never reach. */
static int polytc_block(int threads, bool backwards, bool barriers)
{
    int waiting = threads;
    for (int k = 0; k < threads; k++) {
        polytc_fiber *fiber = &polytc_fibers[k];
        fiber->number = {k % blockDim.x, k / blockDim.x % blockDim.y, k / blockDim.x / blockDim.y};
        fiber->state = 0;
        if (!barriers) continue;
        if (!fiber->stack) fiber->stack = static_cast<char *>(malloc(POLYTC_STACK));
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = POLYTC_STACK;
        makecontext(&fiber->context, polytc_begin, 0);
    }
    while (waiting) {
        waiting = 0;
        for (int n = 0; n < threads; n++) {
            polytc_current = &polytc_fibers[backwards ? threads - 1 - n : n];
            threadIdx = polytc_current->number;
            if (barriers) swapcontext(&polytc_scheduler, &polytc_current->context);
            else polytc_body(polytc_arguments);
            waiting += polytc_current->state == 1;
        }
        if (waiting != 0 && waiting != threads) return 1;
    }
    return 0;
}

static int polytc_launch(const unsigned *grid, const unsigned *block, bool barriers, void (*body)(void *), void *arguments)
{
    int failed = 0;
    polytc_body = body;
    polytc_arguments = arguments;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0] && !failed; x++) {
                blockIdx = {x, y, z};
                if (__start_polytc_shared)
                    memset(__start_polytc_shared, 0xff, static_cast<size_t>(__stop_polytc_shared - __start_polytc_shared));
                failed = polytc_block(static_cast<int>(block[0] * block[1] * block[2]), (x + y + z) % 2, barriers);
            }
    return failed;
}
