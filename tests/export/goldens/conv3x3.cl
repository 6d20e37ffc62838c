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
        I_pad_r1 = ((((c2 * 4 + c5 >= 4) && (c2 * 4 + c5 < 18)) && (c3 * 16 + c6 >= 16)) && (c3 * 16 + c6 < 30)) ? I[(c1 * 2 + c4) * 196 + (c2 * 4 + c5 - 4) * 14 + c3 * 16 + c6 - 16] : 0.0f;
        I_pad[(c1 * 2 + c4) * 256 + (c2 * 4 + c5 - 3) * 16 + c3 * 16 + c6 - 15] = I_pad_r1;
    }
}

/*
 * O[0, m_item, h, 4 * w_item + w_lane] = O_acc[h, m_group, w_group, m_item, w_item, m_row, w_vector, w_lane]  where h in 0:14, m_group in  ...
 */
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void conv3x3_2(__global const float* restrict I_pad, __global float* restrict O, __global const float* restrict W)
{
    __local float W_tile[1152] __attribute__((aligned(64)));
    __local float I_pad_tile[1584] __attribute__((aligned(64)));
    const int item0 = get_local_id(0);
    const int item1 = get_local_id(1);
    const int c0 = get_group_id(2);
    float4 O_acc;
    O_acc = (float4)(0.0f);
    {
        I_pad_tile[(((item0 + item1 * 16) / 66) / 3) * 198 + (((item0 + item1 * 16) / 66) % 3) * 66 + (item0 + item1 * 16) % 66] = ((item0 + item1 * 16) % 66 < 16) ? I_pad[(((item0 + item1 * 16) / 66) / 3) * 256 + (((item0 + item1 * 16) / 66) % 3 + c0) * 16 + (item0 + item1 * 16) % 66] : 0.0f;
        I_pad_tile[(((item0 + item1 * 16 + 256) / 66) / 3) * 198 + (((item0 + item1 * 16 + 256) / 66) % 3) * 66 + (item0 + item1 * 16 + 256) % 66] = ((item0 + item1 * 16 + 256) % 66 < 16) ? I_pad[(((item0 + item1 * 16 + 256) / 66) / 3) * 256 + (((item0 + item1 * 16 + 256) / 66) % 3 + c0) * 16 + (item0 + item1 * 16 + 256) % 66] : 0.0f;
        I_pad_tile[(((item0 + item1 * 16 + 512) / 66) / 3) * 198 + (((item0 + item1 * 16 + 512) / 66) % 3) * 66 + (item0 + item1 * 16 + 512) % 66] = ((item0 + item1 * 16 + 512) % 66 < 16) ? I_pad[(((item0 + item1 * 16 + 512) / 66) / 3) * 256 + (((item0 + item1 * 16 + 512) / 66) % 3 + c0) * 16 + (item0 + item1 * 16 + 512) % 66] : 0.0f;
        I_pad_tile[(((item0 + item1 * 16 + 768) / 66) / 3) * 198 + (((item0 + item1 * 16 + 768) / 66) % 3) * 66 + (item0 + item1 * 16 + 768) % 66] = ((item0 + item1 * 16 + 768) % 66 < 16) ? I_pad[(((item0 + item1 * 16 + 768) / 66) / 3) * 256 + (((item0 + item1 * 16 + 768) / 66) % 3 + c0) * 16 + (item0 + item1 * 16 + 768) % 66] : 0.0f;
        I_pad_tile[(((item0 + item1 * 16 + 1024) / 66) / 3) * 198 + (((item0 + item1 * 16 + 1024) / 66) % 3) * 66 + (item0 + item1 * 16 + 1024) % 66] = ((item0 + item1 * 16 + 1024) % 66 < 16) ? I_pad[(((item0 + item1 * 16 + 1024) / 66) / 3) * 256 + (((item0 + item1 * 16 + 1024) / 66) % 3 + c0) * 16 + (item0 + item1 * 16 + 1024) % 66] : 0.0f;
        I_pad_tile[(((item0 + item1 * 16 + 1280) / 66) / 3) * 198 + (((item0 + item1 * 16 + 1280) / 66) % 3) * 66 + (item0 + item1 * 16 + 1280) % 66] = ((item0 + item1 * 16 + 1280) % 66 < 16) ? I_pad[(((item0 + item1 * 16 + 1280) / 66) / 3) * 256 + (((item0 + item1 * 16 + 1280) / 66) % 3 + c0) * 16 + (item0 + item1 * 16 + 1280) % 66] : 0.0f;
        if (item0 + item1 * 16 < 48) {
            I_pad_tile[(((item0 + item1 * 16 + 1536) / 66) / 3) * 198 + (((item0 + item1 * 16 + 1536) / 66) % 3) * 66 + (item0 + item1 * 16 + 1536) % 66] = ((item0 + item1 * 16 + 1536) % 66 < 16) ? I_pad[(((item0 + item1 * 16 + 1536) / 66) / 3) * 256 + (((item0 + item1 * 16 + 1536) / 66) % 3 + c0) * 16 + (item0 + item1 * 16 + 1536) % 66] : 0.0f;
        }
        W_tile[((((item0 + item1 * 16) / 3) / 3) % 8) * 144 + (((item0 + item1 * 16) / 3) % 3) * 48 + ((item0 + item1 * 16) % 3) * 16 + (((item0 + item1 * 16) / 3) / 3) / 8] = W[((((item0 + item1 * 16) / 3) / 3) / 8) * 72 + ((((item0 + item1 * 16) / 3) / 3) % 8) * 9 + (((item0 + item1 * 16) / 3) % 3) * 3 + (item0 + item1 * 16) % 3];
        W_tile[((((item0 + item1 * 16 + 256) / 3) / 3) % 8) * 144 + (((item0 + item1 * 16 + 256) / 3) % 3) * 48 + ((item0 + item1 * 16 + 256) % 3) * 16 + (((item0 + item1 * 16 + 256) / 3) / 3) / 8] = W[((((item0 + item1 * 16 + 256) / 3) / 3) / 8) * 72 + ((((item0 + item1 * 16 + 256) / 3) / 3) % 8) * 9 + (((item0 + item1 * 16 + 256) / 3) % 3) * 3 + (item0 + item1 * 16 + 256) % 3];
        W_tile[((((item0 + item1 * 16 + 512) / 3) / 3) % 8) * 144 + (((item0 + item1 * 16 + 512) / 3) % 3) * 48 + ((item0 + item1 * 16 + 512) % 3) * 16 + (((item0 + item1 * 16 + 512) / 3) / 3) / 8] = W[((((item0 + item1 * 16 + 512) / 3) / 3) / 8) * 72 + ((((item0 + item1 * 16 + 512) / 3) / 3) % 8) * 9 + (((item0 + item1 * 16 + 512) / 3) % 3) * 3 + (item0 + item1 * 16 + 512) % 3];
        W_tile[((((item0 + item1 * 16) / 3 + 256) / 3) % 8) * 144 + (((item0 + item1 * 16) / 3 + 256) % 3) * 48 + ((item0 + item1 * 16) % 3) * 16 + (((item0 + item1 * 16) / 3 + 256) / 3) / 8] = W[((((item0 + item1 * 16) / 3 + 256) / 3) / 8) * 72 + ((((item0 + item1 * 16) / 3 + 256) / 3) % 8) * 9 + (((item0 + item1 * 16) / 3 + 256) % 3) * 3 + (item0 + item1 * 16) % 3];
        if (item0 + item1 * 16 < 128) {
            W_tile[((((item0 + item1 * 16 + 1024) / 3) / 3) % 8) * 144 + (((item0 + item1 * 16 + 1024) / 3) % 3) * 48 + ((item0 + item1 * 16 + 1024) % 3) * 16 + (((item0 + item1 * 16 + 1024) / 3) / 3) / 8] = W[((((item0 + item1 * 16 + 1024) / 3) / 3) / 8) * 72 + ((((item0 + item1 * 16 + 1024) / 3) / 3) % 8) * 9 + (((item0 + item1 * 16 + 1024) / 3) % 3) * 3 + (item0 + item1 * 16 + 1024) % 3];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c8 = 0; c8 < 8; ++c8) {
            for (int c9 = 0; c9 < 3; ++c9) {
                for (int c10 = 0; c10 < 3; ++c10) {
                    O_acc = O_acc + (vload4(0, I_pad_tile + c8 * 198 + c9 * 66 + c10 + item0 * 4) * (float4)(W_tile[c8 * 144 + c9 * 48 + c10 * 16 + item1]));
                }
            }
        }
    }
    if (item0 * 4 < 14) {
        O[item1 * 196 + c0 * 14 + item0 * 4] = O_acc.s0;
    }
    if (item0 * 4 < 13) {
        O[item1 * 196 + c0 * 14 + item0 * 4 + 1] = O_acc.s1;
    }
    if (item0 * 4 < 12) {
        O[item1 * 196 + c0 * 14 + item0 * 4 + 2] = O_acc.s2;
    }
    if (item0 * 4 < 11) {
        O[item1 * 196 + c0 * 14 + item0 * 4 + 3] = O_acc.s3;
    }
}
