/*
 * conv3x3: OpenCL C 1.2 by polytc VERSION; build options: -cl-std=CL1.2
 * Arrays are row-major without padding; half holds f16, ushort bf16, uchar bool as 0 or 1.
 *
 * Arguments:
 *   I: f32[1][8][14][14], input
 *   W: f32[16][8][3][3], input
 *   O: f32[1][16][14][14], output
 *
 * Launches, one after another in one in-order queue (global size / local size, local memory):
 *   1. conv3x3_1(I, O, W)  4 x 16 x 16 / 4 x 4 x 8, 7232 bytes
 */

/*
 * def program(f32[1, 8, 14, 14] I, f32[16, 8, 3, 3] W) -> (f32[1, 16, 14, 14] O) {
 *     S1_init: O[n, m, h, w] = 0.0  where n in 0:1, m in 0:16, h in 0:14, w in 0:14
 *     S1: O[n, m, h, w] += (I[n, c, h + r - 1, w + s - 1] else 0.0) * W[m, c, r, s]  where n in 0:1, m in 0:16, h in 0:14, w in 0:14, c in ...
 * }
 *
 * Schedule: gpu strategy
 * block2 for h_group in 0:2:
 *     block1 for m_group in 0:4:
 *         block0 for w_group in 0:1:
 *             thread2 for h_item in 0:8:
 *                 thread1 for m_item in 0:4:
 *                     thread0 for w_item in 0:4:
 *                         unroll for m_row in 0:1:
 *                             unroll for w_vector in 0:1:
 *                                 vector for w_lane in 0:4:
 *                                     S1_init: O_acc[h_group, m_group, w_group, h_item, m_item, w_item, m_row, w_vector, w_lane] = 0.0
 *             for c_step in 0:1:
 *                 for r_step in 0:1:
 *                     for s_step in 0:1:
 *                         thread2 for I_tile_z in 0:8:
 *                             thread1 for I_tile_y in 0:4:
 *                                 thread0 for I_tile_x in 0:4:
 *                                     for I_tile_rounds in 0:3:
 *                                         unroll for I_tile_round in 0:4:
 *                                             vector for I_tile_lane in 0:1:
 *                                                 S1_I_tile: I_tile[h_group, m_group, w_group, c_step, r_step, s_step, 0, (128 * I_tile_ro ...
 *                         thread2 for W_tile_z in 0:8:
 *                             thread1 for W_tile_y in 0:4:
 *                                 thread0 for W_tile_x in 0:4:
 *                                     unroll for W_tile_round in 0:3:
 *                                         vector for W_tile_lane in 0:1:
 *                                             S1_W_tile: W_tile[h_group, m_group, w_group, c_step, r_step, s_step, (128 * W_tile_round + W ...
 *                         thread2 for h_item in 0:8:
 *                             thread1 for m_item in 0:4:
 *                                 thread0 for w_item in 0:4:
 *                                     for c_at in 0:8:
 *                                         for r_at in 0:3:
 *                                             for s_at in 0:3:
 *                                                 unroll for m_row in 0:1:
 *                                                     unroll for w_vector in 0:1:
 *                                                         vector for w_lane in 0:4:
 *                                                             S1: O_acc[h_group, m_group, w_group, h_item, m_item, w_item, m_row, w_vector ...
 *             thread2 for h_item in 0:8:
 *                 thread1 for m_item in 0:4:
 *                     thread0 for w_item in 0:4:
 *                         unroll for m_row in 0:1:
 *                             unroll for w_vector in 0:1:
 *                                 unroll for w_lane in 0:4:
 *                                     S1_store: O[0, 4 * m_group + m_item, 8 * h_group + h_item, 4 * w_item + w_lane] = O_acc[h_group, m_g ...
 */
__kernel __attribute__((reqd_work_group_size(4, 4, 8)))
void conv3x3_1(__global const float* restrict I, __global float* restrict O, __global const float* restrict W)
{
    __local float W_tile[8][3][3][5] __attribute__((aligned(64)));
    __local float I_tile[8][10][18] __attribute__((aligned(64)));
    const int item_x = get_local_id(0);
    const int item_y = get_local_id(1);
    const int item_z = get_local_id(2);
    const int h_group = get_group_id(2);
    const int h = h_group * 8 + item_z;
    const int m_group = get_group_id(1);
    const int m = m_group * 4 + item_y;
    const int m_2 = m_group * 288 + item_x;
    /* S1_init: O_acc[h_group, m_group, w_group, h_item, m_item, w_item, m_row, w_vector, w_lane] = 0.0 */
    float4 O_acc = (float4)(0.0f);
    for (int I_tile_rounds = 0; I_tile_rounds < 3; ++I_tile_rounds) {
        /* S1_I_tile: I_tile from I */
        const int at = I_tile_rounds * 512 + item_x + item_y * 4 + item_z * 16;
        {
            const int at_div_18 = at / 18;
            const int at_mod_18 = at % 18;
            const int at_div_18_div_10 = at_div_18 / 10;
            const int at_div_18_mod_10 = at_div_18 % 10;
            I_tile[at_div_18_div_10][at_div_18_mod_10][at_mod_18] =
                    (at_div_18_mod_10 + h_group * 8 >= 1 && at_div_18_mod_10 + h_group * 8 < 15 && at_mod_18 >= 1 &&
                    at_mod_18 < 15) ? I[(at_div_18_div_10 * 14 + at_div_18_mod_10 + h_group * 8 - 1) * 14 + at_mod_18 - 1] : 0.0f;
        }
        {
            const int at_2 = at + 128;
            const int at_2_div_18 = at_2 / 18;
            const int at_2_mod_18 = at_2 % 18;
            const int at_2_div_18_div_10 = at_2_div_18 / 10;
            const int at_2_div_18_mod_10 = at_2_div_18 % 10;
            I_tile[at_2_div_18_div_10][at_2_div_18_mod_10][at_2_mod_18] =
                    (at_2_div_18_mod_10 + h_group * 8 >= 1 && at_2_div_18_mod_10 + h_group * 8 < 15 && at_2_mod_18 >= 1 &&
                    at_2_mod_18 < 15)
                    ? I[(at_2_div_18_div_10 * 14 + at_2_div_18_mod_10 + h_group * 8 - 1) * 14 + at_2_mod_18 - 1] : 0.0f;
        }
        {
            const int at_2 = at + 256;
            const int at_2_div_18 = at_2 / 18;
            const int at_2_mod_18 = at_2 % 18;
            const int at_2_div_18_div_10 = at_2_div_18 / 10;
            const int at_2_div_18_mod_10 = at_2_div_18 % 10;
            I_tile[at_2_div_18_div_10][at_2_div_18_mod_10][at_2_mod_18] =
                    (at_2_div_18_mod_10 + h_group * 8 >= 1 && at_2_div_18_mod_10 + h_group * 8 < 15 && at_2_mod_18 >= 1 &&
                    at_2_mod_18 < 15)
                    ? I[(at_2_div_18_div_10 * 14 + at_2_div_18_mod_10 + h_group * 8 - 1) * 14 + at_2_mod_18 - 1] : 0.0f;
        }
        if (at < 1056) {
            const int at_2 = at + 384;
            const int at_2_div_18 = at_2 / 18;
            const int at_2_mod_18 = at_2 % 18;
            const int at_2_div_18_div_10 = at_2_div_18 / 10;
            const int at_2_div_18_mod_10 = at_2_div_18 % 10;
            I_tile[at_2_div_18_div_10][at_2_div_18_mod_10][at_2_mod_18] =
                    (at_2_div_18_mod_10 + h_group * 8 >= 1 && at_2_div_18_mod_10 + h_group * 8 < 15 && at_2_mod_18 >= 1 &&
                    at_2_mod_18 < 15)
                    ? I[(at_2_div_18_div_10 * 14 + at_2_div_18_mod_10 + h_group * 8 - 1) * 14 + at_2_mod_18 - 1] : 0.0f;
        }
    }
    /* S1_W_tile: W_tile from W */
    const int item = item_x + item_y * 4 + item_z * 16;
    {
        const int item_div_3 = item / 3;
        const int item_div_3_div_3 = item_div_3 / 3;
        W_tile[item_div_3_div_3 % 8][item_div_3 % 3][item % 3][item_div_3_div_3 / 8] = W[m_2 + item_y * 4 + item_z * 16];
    }
    {
        const int at = item + 128;
        const int at_div_3 = at / 3;
        const int at_div_3_div_3 = at_div_3 / 3;
        W_tile[at_div_3_div_3 % 8][at_div_3 % 3][at % 3][at_div_3_div_3 / 8] = W[m_2 + item_y * 4 + item_z * 16 + 128];
    }
    if (item < 32) {
        const int at = item + 256;
        const int at_div_3 = at / 3;
        const int at_div_3_div_3 = at_div_3 / 3;
        W_tile[at_div_3_div_3 % 8][at_div_3 % 3][at % 3][at_div_3_div_3 / 8] = W[m_2 + item_y * 4 + item_z * 16 + 256];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c_at = 0; c_at < 8; ++c_at) {
        #pragma unroll
        for (int r_at = 0; r_at < 3; ++r_at) {
            #pragma unroll
            for (int s_at = 0; s_at < 3; ++s_at) {
                /* S1: O_acc from I_tile, W_tile */
                O_acc += vload4(0, &I_tile[c_at][r_at + item_z][s_at + item_x * 4]) * W_tile[c_at][r_at][s_at][item_y];
            }
        }
    }
    if (h < 14) {
        /* S1_store: O from O_acc */
        O[(m * 14 + h) * 14 + item_x * 4] = O_acc.s0;
        O[(m * 14 + h) * 14 + item_x * 4 + 1] = O_acc.s1;
        if (item_x * 4 < 12) {
            O[(m * 14 + h) * 14 + item_x * 4 + 2] = O_acc.s2;
        }
        if (item_x * 4 < 11) {
            O[(m * 14 + h) * 14 + item_x * 4 + 3] = O_acc.s3;
        }
    }
}
