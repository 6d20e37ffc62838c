/* The macros that PolyBench/C's programs use, in place of its utilities/polybench.h: the kernel between the two instruments runs as often as
   harness.c is asked to, on its initial values each time. Array sizes are constants and loop bounds variables, as they are by default there. */

#ifndef POLYBENCH_H
#define POLYBENCH_H

#include <stdlib.h>

extern void *harness_array(const char *name, const char *type, size_t bytes);
extern void harness_free(void *data);
extern int harness_turn(void);
extern void harness_start(void);
extern void harness_stop(void);

#define POLYBENCH_LOOP_BOUND(constant, variable) variable
#define POLYBENCH_ARRAY(a) *a
#define POLYBENCH_FREE_ARRAY(a) harness_free(a);

#define POLYBENCH_1D(a, n, vn) a[n]
#define POLYBENCH_2D(a, n, m, vn, vm) a[n][m]
#define POLYBENCH_3D(a, n, m, l, vn, vm, vl) a[n][m][l]

#define POLYBENCH_1D_ARRAY_DECL(a, type, n, vn) type (*a)[n] = harness_array(#a, HARNESS_TEXT(type), sizeof *a);
#define POLYBENCH_2D_ARRAY_DECL(a, type, n, m, vn, vm) type (*a)[n][m] = harness_array(#a, HARNESS_TEXT(type), sizeof *a);
#define POLYBENCH_3D_ARRAY_DECL(a, type, n, m, l, vn, vm, vl) type (*a)[n][m][l] = harness_array(#a, HARNESS_TEXT(type), sizeof *a);
#define HARNESS_TEXT(x) #x

#define polybench_start_instruments while (harness_turn()) { harness_start()
#define polybench_stop_instruments harness_stop(); }
#define polybench_print_instruments

/* The arrays have escaped to harness.c: nothing can be optimised away, and the text dump is never asked for. */
#define polybench_prevent_dce(print) if (argc > 42) print
#define POLYBENCH_DUMP_TARGET stderr
#define POLYBENCH_DUMP_START
#define POLYBENCH_DUMP_FINISH
#define POLYBENCH_DUMP_BEGIN(name)
#define POLYBENCH_DUMP_END(name)

#endif
