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
 *   2. conv3x3_2(buffer 0, O, W)  16 x 16 x 14 / 16 x 16 x 1, 10944 bytes
 *
 * Memory between the kernels, which nothing is expected of before or after:
 *   buffer 0: 8192 bytes
 */

/*
 * def program(f32[1, 8, 14, 14] I, f32[16, 8, 3, 3] W) -> (f32[1, 16, 14, 14] O) {
 *     S1_init: O[n, m, h, w] = 0.0  where n in 0:1, m in 0:16, h in 0:14, w in 0:14
 *     S1: O[n, m, h, w] += (I[n, c, h + r - 1, w + s - 1] else 0.0) * W[m, c, r, s]  where n in 0:1, m in 0:16, h in 0:14, w in 0:14, c in ...
 * }
 *
 * Schedule: gpu strategy
 * block2 for x0 in 0:1:
 *     block2 for x1.0 in 0:4:             # x1 // 2
 *         block1 for x2.0 in -1:4:        # x2 // 4
 *             block0 for x3.0 in -1:1:    # x3 // 16
 *                 thread2 for x1.1 in 0:2:  # x1 % 2
 *                     thread1 for x2.1 in 0:4:  # x2 % 4
 *                         thread0 for x3.1 in 0:16:  # x3 % 16
 *                             S1_I_pad: I_pad[x0, x1, x2, x3] = (I[x0, x1, x2, x3] else 0.0)
 * block2 for h in 0:14:
 *     block1 for m_group in 0:1:
 *         block0 for w_group in 0:1:
 *             thread1 for m_item in 0:16:
 *                 thread0 for w_item in 0:16:
 *                     unroll for m_row in 0:1:
 *                         unroll for w_vector in 0:1:
 *                             vector for w_lane in 0:4:
 *                                 S1_init: O_acc[h, m_group, w_group, m_item, w_item, m_row, w_vector, w_lane] = 0.0
 *             for c_step in 0:1:
 *                 for r_step in 0:1:
 *                     for s_step in 0:1:
 *                         thread1 for I_pad_tile_y in 0:16:
 *                             thread0 for I_pad_tile_x in 0:16:
 *                                 unroll for I_pad_tile_round in 0:7:
 *                                     vector for I_pad_tile_lane in 0:1:
 *                                         S1_I_pad_tile: I_pad_tile[h, m_group, w_group, c_step, r_step, s_step, 0, (256 * I_pad_tile_roun ...
 *                         thread1 for W_tile_y in 0:16:
 *                             thread0 for W_tile_x in 0:16:
 *                                 unroll for W_tile_round in 0:5:
 *                                     vector for W_tile_lane in 0:1:
 *                                         S1_W_tile: W_tile[h, m_group, w_group, c_step, r_step, s_step, (256 * W_tile_round + W_tile_x +  ...
 *                         thread1 for m_item in 0:16:
 *                             thread0 for w_item in 0:16:
 *                                 for c_at in 0:8:
 *                                     for r_at in 0:3:
 *                                         for s_at in 0:3:
 *                                             unroll for m_row in 0:1:
 *                                                 unroll for w_vector in 0:1:
 *                                                     vector for w_lane in 0:4:
 *                                                         S1: O_acc[h, m_group, w_group, m_item, w_item, m_row, w_vector, w_lane] += I_pad ...
 *             thread1 for m_item in 0:16:
 *                 thread0 for w_item in 0:16:
 *                     unroll for m_row in 0:1:
 *                         unroll for w_vector in 0:1:
 *                             unroll for w_lane in 0:4:
 *                                 S1_store: O[0, m_item, h, 4 * w_item + w_lane] = O_acc[h, m_group, w_group, m_item, w_item, m_row, w_vec ...
 */
__kernel __attribute__((reqd_work_group_size(16, 4, 2)))
void conv3x3_1(__global const float* restrict I, __global float* restrict I_pad)
{
    const int x1_group = get_group_id(2);
    const int x2_group = get_group_id(1);
    const int x3_group = get_group_id(0);
    const int x1_item = get_local_id(2);
    const int x1 = x1_group * 2 + x1_item;
    const int x2_item = get_local_id(1);
    const int x2 = x2_group * 4 + x2_item;
    const int x3_item = get_local_id(0);
    const int x3 = x3_group * 16 + x3_item;
    if (x2 >= 3 && x2 < 19 && x3 >= 15 && x3 < 31) {
        /* S1_I_pad: I_pad[x0, x1, x2, x3] = (I[x0, x1, x2, x3] else 0.0) */
        float I_pad_r = (x2 >= 4 && x2 < 18 && x3 >= 16 && x3 < 30) ? I[x1 * 196 + (x2 - 4) * 14 + x3 - 16] : 0.0f;
        I_pad[x1 * 256 + (x2 - 3) * 16 + x3 - 15] = I_pad_r;
    }
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void conv3x3_2(__global const float* restrict I_pad, __global float* restrict O, __global const float* restrict W)
{
    __local float W_tile[8][3][3][16] __attribute__((aligned(64)));
    __local float I_pad_tile[8][3][66] __attribute__((aligned(64)));
    const int item_x = get_local_id(0);
    const int item_y = get_local_id(1);
    const int h = get_group_id(2);
    /* S1_init: O_acc[h, m_group, w_group, m_item, w_item, m_row, w_vector, w_lane] = 0.0 */
    float4 O_acc = (float4)(0.0f);
    {
        const int item = item_x + item_y * 16;
        /* S1_I_pad_tile: I_pad_tile from I_pad */
        {
            const int item_div_66 = item / 66;
            const int item_mod_66 = item % 66;
            const int item_div_66_div_3 = item_div_66 / 3;
            const int item_div_66_mod_3 = item_div_66 % 3;
            I_pad_tile[item_div_66_div_3][item_div_66_mod_3][item_mod_66] = item_mod_66 < 16
                    ? I_pad[item_div_66_div_3 * 256 + (item_div_66_mod_3 + h) * 16 + item_mod_66] : 0.0f;
        }
        {
            const int at = item + 256;
            const int at_div_66 = at / 66;
            const int at_mod_66 = at % 66;
            const int at_div_66_div_3 = at_div_66 / 3;
            const int at_div_66_mod_3 = at_div_66 % 3;
            I_pad_tile[at_div_66_div_3][at_div_66_mod_3][at_mod_66] = at_mod_66 < 16
                    ? I_pad[at_div_66_div_3 * 256 + (at_div_66_mod_3 + h) * 16 + at_mod_66] : 0.0f;
        }
        {
            const int at = item + 512;
            const int at_div_66 = at / 66;
            const int at_mod_66 = at % 66;
            const int at_div_66_div_3 = at_div_66 / 3;
            const int at_div_66_mod_3 = at_div_66 % 3;
            I_pad_tile[at_div_66_div_3][at_div_66_mod_3][at_mod_66] = at_mod_66 < 16
                    ? I_pad[at_div_66_div_3 * 256 + (at_div_66_mod_3 + h) * 16 + at_mod_66] : 0.0f;
        }
        {
            const int at = item + 768;
            const int at_div_66 = at / 66;
            const int at_mod_66 = at % 66;
            const int at_div_66_div_3 = at_div_66 / 3;
            const int at_div_66_mod_3 = at_div_66 % 3;
            I_pad_tile[at_div_66_div_3][at_div_66_mod_3][at_mod_66] = at_mod_66 < 16
                    ? I_pad[at_div_66_div_3 * 256 + (at_div_66_mod_3 + h) * 16 + at_mod_66] : 0.0f;
        }
        {
            const int at = item + 1024;
            const int at_div_66 = at / 66;
            const int at_mod_66 = at % 66;
            const int at_div_66_div_3 = at_div_66 / 3;
            const int at_div_66_mod_3 = at_div_66 % 3;
            I_pad_tile[at_div_66_div_3][at_div_66_mod_3][at_mod_66] = at_mod_66 < 16
                    ? I_pad[at_div_66_div_3 * 256 + (at_div_66_mod_3 + h) * 16 + at_mod_66] : 0.0f;
        }
        {
            const int at = item + 1280;
            const int at_div_66 = at / 66;
            const int at_mod_66 = at % 66;
            const int at_div_66_div_3 = at_div_66 / 3;
            const int at_div_66_mod_3 = at_div_66 % 3;
            I_pad_tile[at_div_66_div_3][at_div_66_mod_3][at_mod_66] = at_mod_66 < 16
                    ? I_pad[at_div_66_div_3 * 256 + (at_div_66_mod_3 + h) * 16 + at_mod_66] : 0.0f;
        }
        if (item < 48) {
            const int at = item + 1536;
            const int at_div_66 = at / 66;
            const int at_mod_66 = at % 66;
            const int at_div_66_div_3 = at_div_66 / 3;
            const int at_div_66_mod_3 = at_div_66 % 3;
            I_pad_tile[at_div_66_div_3][at_div_66_mod_3][at_mod_66] = at_mod_66 < 16
                    ? I_pad[at_div_66_div_3 * 256 + (at_div_66_mod_3 + h) * 16 + at_mod_66] : 0.0f;
        }
        /* S1_W_tile: W_tile from W */
        const int item_div_3 = item / 3;
        const int item_mod_3 = item % 3;
        {
            const int item_div_3_div_3 = item_div_3 / 3;
            const int item_div_3_mod_3 = item_div_3 % 3;
            const int item_div_3_div_3_mod_8 = item_div_3_div_3 % 8;
            const int item_div_3_div_3_div_8 = item_div_3_div_3 / 8;
            W_tile[item_div_3_div_3_mod_8][item_div_3_mod_3][item_mod_3][item_div_3_div_3_div_8] =
                    W[item_div_3_div_3_div_8 * 72 + item_div_3_div_3_mod_8 * 9 + item_div_3_mod_3 * 3 + item_mod_3];
        }
        {
            const int at = item + 256;
            const int at_div_3 = at / 3;
            const int at_mod_3 = at % 3;
            const int at_div_3_div_3 = at_div_3 / 3;
            const int at_div_3_mod_3 = at_div_3 % 3;
            const int at_div_3_div_3_mod_8 = at_div_3_div_3 % 8;
            const int at_div_3_div_3_div_8 = at_div_3_div_3 / 8;
            W_tile[at_div_3_div_3_mod_8][at_div_3_mod_3][at_mod_3][at_div_3_div_3_div_8] =
                    W[at_div_3_div_3_div_8 * 72 + at_div_3_div_3_mod_8 * 9 + at_div_3_mod_3 * 3 + at_mod_3];
        }
        {
            const int at = item + 512;
            const int at_div_3 = at / 3;
            const int at_mod_3 = at % 3;
            const int at_div_3_div_3 = at_div_3 / 3;
            const int at_div_3_mod_3 = at_div_3 % 3;
            const int at_div_3_div_3_mod_8 = at_div_3_div_3 % 8;
            const int at_div_3_div_3_div_8 = at_div_3_div_3 / 8;
            W_tile[at_div_3_div_3_mod_8][at_div_3_mod_3][at_mod_3][at_div_3_div_3_div_8] =
                    W[at_div_3_div_3_div_8 * 72 + at_div_3_div_3_mod_8 * 9 + at_div_3_mod_3 * 3 + at_mod_3];
        }
        {
            const int at = item_div_3 + 256;
            const int at_div_3 = at / 3;
            const int at_mod_3 = at % 3;
            const int at_div_3_mod_8 = at_div_3 % 8;
            const int at_div_3_div_8 = at_div_3 / 8;
            W_tile[at_div_3_mod_8][at_mod_3][item_mod_3][at_div_3_div_8] =
                    W[at_div_3_div_8 * 72 + at_div_3_mod_8 * 9 + at_mod_3 * 3 + item_mod_3];
        }
        if (item < 128) {
            const int at = item + 1024;
            const int at_div_3 = at / 3;
            const int at_mod_3 = at % 3;
            const int at_div_3_div_3 = at_div_3 / 3;
            const int at_div_3_mod_3 = at_div_3 % 3;
            const int at_div_3_div_3_mod_8 = at_div_3_div_3 % 8;
            const int at_div_3_div_3_div_8 = at_div_3_div_3 / 8;
            W_tile[at_div_3_div_3_mod_8][at_div_3_mod_3][at_mod_3][at_div_3_div_3_div_8] =
                    W[at_div_3_div_3_div_8 * 72 + at_div_3_div_3_mod_8 * 9 + at_div_3_mod_3 * 3 + at_mod_3];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c_at = 0; c_at < 8; ++c_at) {
            #pragma unroll
            for (int r_at = 0; r_at < 3; ++r_at) {
                #pragma unroll
                for (int s_at = 0; s_at < 3; ++s_at) {
                    /* S1: O_acc from I_pad_tile, W_tile */
                    O_acc += vload4(0, &I_pad_tile[c_at][r_at][s_at + item_x * 4]) * W_tile[c_at][r_at][s_at][item_y];
                }
            }
        }
    }
    if (item_x * 4 < 14) {
        /* S1_store: O from O_acc */
        O[item_y * 196 + h * 14 + item_x * 4] = O_acc.s0;
    }
    if (item_x * 4 < 13) {
        O[item_y * 196 + h * 14 + item_x * 4 + 1] = O_acc.s1;
    }
    if (item_x * 4 < 12) {
        O[item_y * 196 + h * 14 + item_x * 4 + 2] = O_acc.s2;
    }
    if (item_x * 4 < 11) {
        O[item_y * 196 + h * 14 + item_x * 4 + 3] = O_acc.s3;
    }
}
