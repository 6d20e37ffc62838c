/*
 * conv3x3: OpenCL C 1.2 by polytc VERSION; build options: -cl-std=CL1.2 -cl-mad-enable
 * Arrays are row-major without padding; half holds f16, ushort bf16, uchar bool as 0 or 1.
 *
 * Arguments:
 *   I: f32[1][8][14][14], input
 *   W: f32[16][8][3][3], input
 *   O: f32[1][16][14][14], output
 *
 * Launches, one after another in one in-order queue (global size / local size, local memory):
 *   1. conv3x3_1(I, buffer 0)  32 x 20 x 8 / 16 x 4 x 2, 0 bytes
 *   2. conv3x3_2(buffer 0, O, W)  14 x 16 x 16 / 14 x 4 x 2, 0 bytes
 *
 * Memory between the kernels, which nothing is expected of before or after:
 *   buffer 0: 8192 bytes
 */

/*
 * def program(f32[1, 8, 14, 14] I, f32[16, 8, 3, 3] W) -> (f32[1, 16, 14, 14] O) {
 *     temp f32[1, 8, -1:15, -1:15] I_pad
 *     S1_init: O[0, m, h, w] = 0.0  where m in 0:16, h in 0:14, w in 0:14
 *     S1_I_pad: I_pad[x0, x1, x2, x3] = (I[x0, x1, x2, x3] else 0.0)  where x0 in 0:1, x1 in 0:8, x2 in -1:15, x3 in -1:15
 *     S1: O[0, m, h, w] += I_pad[0, c, h + r - 1, s + w - 1] * W[m, c, r, s]  where m in 0:16, h in 0:14, w in 0:14, c in 0:8, r in 0:3, s in 0:3
 * }
 *
 * Schedule: gpu strategy; fusion smart: {S1_I_pad} {S1_init, S1}, cycles estimated: min 1.4e+04, smart 1.4e+04, max 1.4e+04
 * block2 for x0 in 0:1:
 *     block2 for x1.0 in 0:4:             # x1 // 2
 *         block1 for x2.0 in -1:4:        # x2 // 4
 *             block0 for x3.0 in -1:1:    # x3 // 16
 *                 thread2 for x1.1 in 0:2:  # x1 % 2
 *                     thread1 for x2.1 in 0:4:  # x2 % 4
 *                         thread0 for x3.1 in 0:16:  # x3 % 16
 *                             S1_I_pad: I_pad[x0, x1, x2, x3] = (I[x0, x1, x2, x3] else 0.0)
 * block2 for m.0 in 0:8:                  # m // 2
 *     block1 for h.0 in 0:4:              # h // 4
 *         block0 for w.0 in 0:1:          # w // 16
 *             thread2 for m.1 in 0:2:     # m % 2
 *                 thread1 for h.1 in 0:4:  # h % 4
 *                     thread0 for w.1 in 0:14:  # w % 16
 *                         S1_init: O[0, m, h, w] = 0.0
 *                         for c.0 in 0:8:  # c
 *                             for r in 0:3:
 *                                 for s in 0:3:
 *                                     S1: O[0, m, h, w] += I_pad[0, c, h + r - 1, s + w - 1] * W[m, c, r, s]
 *
 * I_pad[x0, x1, x2, x3] = (I[x0, x1, x2, x3] else 0.0)  where x0 in 0:1, x1 in 0:8, x2 in -1:15, x3 in -1:15
 */
__kernel __attribute__((reqd_work_group_size(16, 4, 2)))
void conv3x3_1(__global const float* restrict I, __global float* restrict I_pad)
{
    const int c1 = get_group_id(2);
    const int c2 = get_group_id(1);
    const int c3 = get_group_id(0);
    const int c4 = get_local_id(2);
    const int c5 = get_local_id(1);
    const int c6 = get_local_id(0);
    if ((((c5 >= max(0, c2 * (-4) + 3)) && (c5 < min(3, c2 * (-4) + 18) + 1)) && (c6 >= max(0, c3 * (-16) + 15))) && (c6 < min(15, c3 * (-16) + 30) + 1)) {
        float I_pad_r1;
        I_pad_r1 = ((((c2 * 4 + c5 - 4 >= 0) && (c2 * 4 + c5 - 4 < 14)) && (c3 * 16 + c6 - 16 >= 0)) && (c3 * 16 + c6 - 16 < 14)) ? I[(c1 * 2 + c4) * 196 + (c2 * 4 + c5 - 4) * 14 + c3 * 16 + c6 - 16] : 0.0f;
        I_pad[(c1 * 2 + c4) * 256 + (c2 * 4 + c5 - 3) * 16 + c3 * 16 + c6 - 15] = I_pad_r1;
    }
}

/*
 * O[0, m, h, w] = 0.0  where m in 0:16, h in 0:14, w in 0:14
 * O[0, m, h, w] += I_pad[0, c, h + r - 1, s + w - 1] * W[m, c, r, s]  where m in 0:16, h in 0:14, w in 0:14, c in 0:8, r in 0:3, s in 0:3
 */
__kernel __attribute__((reqd_work_group_size(14, 4, 2)))
void conv3x3_2(__global const float* restrict I_pad, __global float* restrict O, __global const float* restrict W)
{
    const int c0 = get_group_id(2);
    const int c1 = get_group_id(1);
    const int c3 = get_local_id(2);
    const int c4 = get_local_id(1);
    const int c5 = get_local_id(0);
    if (c4 < min(3, c1 * (-4) + 13) + 1) {
        float O_r1;
        O_r1 = 0.0f;
        for (int c6 = 0; c6 < 8; ++c6) {
            for (int c7 = 0; c7 < 3; ++c7) {
                for (int c8 = 0; c8 < 3; ++c8) {
                    O_r1 = O_r1 + (I_pad[c6 * 256 + (c1 * 4 + c4 + c7) * 16 + c5 + c8] * W[(c0 * 2 + c3) * 72 + c6 * 9 + c7 * 3 + c8]);
                }
            }
        }
        O[(c0 * 2 + c3) * 196 + (c1 * 4 + c4) * 14 + c5] = O_r1;
    }
}
