/* CUDA C on a processor: blocks one after another, the threads of a block as fibers that switch at barriers.
 *
 * Fibers run in the order of their numbers in every other block, backwards in the others, so that a missing barrier shows.
 * With POLYTC_TOGETHER several blocks run at once, each in a thread of the system, and the last ones of a grid begin first, so that
 * what waits for blocks that have not begun waits for ever.
 * Shared memory holds NaN (or -1) when a block begins, if they run one after another. What the threads of a warp do together, and copies that are waited for, is
 * below: the functions of the text that have instructions of a GPU in them stand here as C. */
#pragma GCC system_header
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __launch_bounds__(...)
#ifdef POLYTC_TOGETHER
#include <pthread.h>
#define POLYTC_OWN thread_local
#define __shared__ static thread_local
#else
#define POLYTC_OWN
#define __shared__ static __attribute__((section("polytc_shared")))
#endif

extern char __start_polytc_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_polytc_shared[] __attribute__((weak, visibility("hidden")));

struct polytc_index {
    unsigned x, y, z;
};
POLYTC_OWN polytc_index threadIdx, blockIdx;
polytc_index gridDim, blockDim;

static inline float __int_as_float(int bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define POLYTC_BITS(name, from, to) \
    static inline to name(from x) \
    { \
        to bits; \
        static_assert(sizeof bits == sizeof x, ""); \
        memcpy(&bits, &x, sizeof x); \
        return bits; \
    }
POLYTC_BITS(__float_as_uint, float, unsigned)
POLYTC_BITS(__uint_as_float, unsigned, float)
POLYTC_BITS(__double_as_longlong, double, long long)
POLYTC_BITS(__longlong_as_double, long long, double)

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

static inline unsigned atomicInc(unsigned *address, unsigned most)
{
    unsigned a = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &a, a >= most ? 0 : a + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return a;
}

struct polytc_fiber {
    ucontext_t context;
    char *stack;
    polytc_index number;
    int state; /* 0: runs or may run, 1: waits at a barrier, 2: is done, 3: waits for its warp */
    int copies, shared; /* copies under way, and what it has shared with its warp so far */
};

enum { POLYTC_MOST = 1024, POLYTC_STACK = 1 << 17 };
static POLYTC_OWN polytc_fiber polytc_fibers[POLYTC_MOST], *polytc_current;
static POLYTC_OWN ucontext_t polytc_scheduler;
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

/* Do all threads of some warps wait for each other? They go on then. */
static bool polytc_warps(int threads)
{
    bool found = false;
    for (int first = 0; first + 32 <= threads; first += 32) {
        int met = 0;
        for (int k = 0; k < 32; k++) met += polytc_fibers[first + k].state == 3;
        found |= met == 32;
        for (int k = 0; k < 32 && met == 32; k++) polytc_fibers[first + k].state = 0;
    }
    return found;
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
        fiber->state = fiber->copies = fiber->shared = 0;
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
            if (polytc_current->state == 1) {
                waiting++;
                continue;
            }
            if (polytc_current->state != 0) continue;
            threadIdx = polytc_current->number;
            if (barriers) swapcontext(&polytc_scheduler, &polytc_current->context);
            else polytc_body(polytc_arguments);
            waiting += polytc_current->state == 1;
        }
        if (waiting == threads)
            for (int n = 0; n < threads; n++) polytc_fibers[n].state = 0;
        else if (polytc_warps(threads)) waiting = 1;
        else if (waiting) return 1;
    }
    for (int n = 0; n < threads && barriers; n++)
        if (polytc_fibers[n].state != 2 || polytc_fibers[n].copies) return 1;
    return 0;
}

#ifdef POLYTC_TOGETHER
enum { POLYTC_TEAM = 6 };
static int polytc_left, polytc_failed;

/* Blocks until none is left, the last ones first. */
static void *polytc_team(void *barriers)
{
    for (int n; (n = __atomic_fetch_sub(&polytc_left, 1, __ATOMIC_RELAXED)) > 0;) {
        const unsigned k = static_cast<unsigned>(n - 1), rest = k / gridDim.x;
        blockIdx = {k % gridDim.x, rest % gridDim.y, rest / gridDim.y};
        if (polytc_block(static_cast<int>(blockDim.x * blockDim.y * blockDim.z), k % 2, *static_cast<bool *>(barriers)))
            __atomic_store_n(&polytc_failed, 1, __ATOMIC_RELAXED);
    }
    for (polytc_fiber &fiber : polytc_fibers) free(fiber.stack);
    return nullptr;
}
#endif

static int polytc_launch(const unsigned *grid, const unsigned *block, bool barriers, void (*body)(void *), void *arguments)
{
    int failed = 0;
    polytc_body = body;
    polytc_arguments = arguments;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
#ifdef POLYTC_TOGETHER
    pthread_t team[POLYTC_TEAM];
    polytc_failed = 0;
    polytc_left = static_cast<int>(grid[0] * grid[1] * grid[2]);
    for (pthread_t &one : team)
        if (pthread_create(&one, nullptr, polytc_team, &barriers)) abort();
    for (pthread_t one : team) pthread_join(one, nullptr);
    return failed + polytc_failed;
#endif
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

/* What a thread gives to its warp: the next is given elsewhere, as others may not have read it yet. */
struct polytc_gift {
    unsigned a[4], b[2];
    float c[4];
    const unsigned short *row;
};
static polytc_gift polytc_gifts[2][POLYTC_MOST];

/* The gifts of the threads of the own warp, when all have given one. */
static inline const polytc_gift *polytc_meet(const polytc_gift &own)
{
    const long number = polytc_current - polytc_fibers;
    polytc_gift *all = polytc_gifts[polytc_current->shared++ % 2];
    all[number] = own;
    polytc_leave(3);
    return all + number / 32 * 32;
}

static inline int polytc_lane(void)
{
    return static_cast<int>((polytc_current - polytc_fibers) % 32);
}

static inline float polytc_number(unsigned bits, bool brain)
{
    if (brain) return __int_as_float(static_cast<int>(bits << 16));
    const int exponent = bits >> 10 & 31;
    const float digits = static_cast<float>(bits & 1023);
    const float size = exponent == 31 ? (digits != 0 ? NAN : INFINITY)
                       : exponent ? ldexpf(1024 + digits, exponent - 25) : ldexpf(digits, -24);
    return bits & 0x8000 ? -size : size;
}

/* Rows are a warp's threads by fours; a thread holds the columns 2 * (lane % 4) and the next of each block. */
static inline void polytc_multiply(float *upper, float *lower, const unsigned *a, const unsigned *b, bool brain)
{
    polytc_gift own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {upper[0], upper[1], lower[0], lower[1]}, nullptr};
    const polytc_gift *all = polytc_meet(own);
    const int lane = polytc_lane();
    float sums[4];
    for (int place = 0; place < 4; place++) {
        const int down = place / 2, column = lane % 4 * 2 + place % 2;
        double sum = own.c[place];
        for (int k = 0; k < 16; k++) {
            const unsigned left = all[lane / 4 * 4 + k % 8 / 2].a[down + k / 8 * 2], right = all[column * 4 + k % 8 / 2].b[k / 8];
            sum += static_cast<double>(polytc_number(left >> k % 2 * 16 & 0xffff, brain)) *
                   polytc_number(right >> k % 2 * 16 & 0xffff, brain);
        }
        sums[place] = static_cast<float>(sum);
    }
    for (int n = 0; n < 2; n++) {
        upper[n] = sums[n];
        lower[n] = sums[2 + n];
    }
}

static inline void polytc_multiply_half(float *upper, float *lower, const unsigned *a, const unsigned *b)
{
    polytc_multiply(upper, lower, a, b, false);
}

static inline void polytc_multiply_bfloat(float *upper, float *lower, const unsigned *a, const unsigned *b)
{
    polytc_multiply(upper, lower, a, b, true);
}

/* As polytc_multiply, of 32 bytes in each row, four in a word; sums wrap. */
static inline void polytc_multiply_bytes(int *upper, int *lower, const unsigned *a, const unsigned *b, bool first, bool second)
{
    polytc_gift own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {}, nullptr};
    const polytc_gift *all = polytc_meet(own);
    const int lane = polytc_lane();
    unsigned sums[4] = {};
    for (int place = 0; place < 4; place++) {
        const int down = place / 2, column = lane % 4 * 2 + place % 2;
        for (int k = 0; k < 32; k++) {
            const unsigned left = all[lane / 4 * 4 + k % 16 / 4].a[down + k / 16 * 2] >> k % 4 * 8 & 0xff;
            const unsigned right = all[column * 4 + k % 16 / 4].b[k / 16] >> k % 4 * 8 & 0xff;
            const int x = first ? static_cast<signed char>(left) : static_cast<int>(left);
            const int y = second ? static_cast<signed char>(right) : static_cast<int>(right);
            sums[place] += static_cast<unsigned>(x * y);
        }
    }
    for (int n = 0; n < 2; n++) {
        upper[n] = static_cast<int>(static_cast<unsigned>(upper[n]) + sums[n]);
        lower[n] = static_cast<int>(static_cast<unsigned>(lower[n]) + sums[2 + n]);
    }
}

#define POLYTC_BYTES(name, first, second) \
    static inline void polytc_multiply_##name(int *upper, int *lower, const unsigned *a, const unsigned *b) \
    { \
        polytc_multiply_bytes(upper, lower, a, b, first, second); \
    }
POLYTC_BYTES(i8i8, true, true)
POLYTC_BYTES(i8u8, true, false)
POLYTC_BYTES(u8i8, false, true)
POLYTC_BYTES(u8u8, false, false)

static inline void polytc_blocks(unsigned *parts, const void *row, bool across)
{
    polytc_gift own = {};
    own.row = static_cast<const unsigned short *>(row);
    if (reinterpret_cast<uintptr_t>(row) % 16) abort();
    const polytc_gift *all = polytc_meet(own);
    const int lane = polytc_lane(), r = lane / 4, c = lane % 4 * 2;
    for (int block = 0; block < 4; block++) {
        const polytc_gift *rows = all + 8 * block;
        const unsigned first = across ? rows[c].row[r] : rows[r].row[c], next = across ? rows[c + 1].row[r] : rows[r].row[c + 1];
        parts[block] = first | next << 16;
    }
}

static inline void polytc_read_blocks(unsigned *parts, const void *row)
{
    polytc_blocks(parts, row, false);
}

static inline void polytc_read_blocks_across(unsigned *parts, const void *row)
{
    polytc_blocks(parts, row, true);
}

/* Copies arrive when they are waited for, and no sooner. */
struct polytc_copy {
    void *to;
    const void *from;
    int bytes;
    bool there;
};
enum { POLYTC_COPIES = 256 };
static polytc_copy polytc_copies[POLYTC_MOST][POLYTC_COPIES];

static inline void polytc_copy_later(void *to, const void *from, int bytes, bool there)
{
    const uintptr_t place = reinterpret_cast<uintptr_t>(to) | (there ? reinterpret_cast<uintptr_t>(from) : 0);
    if (polytc_current->copies == POLYTC_COPIES || place % static_cast<unsigned>(bytes)) abort();
    polytc_copies[polytc_current - polytc_fibers][polytc_current->copies++] = {to, from, bytes, there};
}

static inline void polytc_copy_4(void *to, const void *from, bool there = true)
{
    polytc_copy_later(to, from, 4, there);
}

static inline void polytc_copy_8(void *to, const void *from, bool there = true)
{
    polytc_copy_later(to, from, 8, there);
}

static inline void polytc_copy_16(void *to, const void *from, bool there = true)
{
    polytc_copy_later(to, from, 16, there);
}

static inline void polytc_wait_for_copies(void)
{
    polytc_copy *mine = polytc_copies[polytc_current - polytc_fibers];
    for (int k = 0; k < polytc_current->copies; k++) {
        if (mine[k].there) memcpy(mine[k].to, mine[k].from, static_cast<size_t>(mine[k].bytes));
        else memset(mine[k].to, 0, static_cast<size_t>(mine[k].bytes));
    }
    polytc_current->copies = 0;
}
