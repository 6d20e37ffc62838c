static double launch_seconds(int64_t groups, int64_t resident, double operations, double passes, double moved, double waits,
                             double bytes)
{
    const double busiest = real(turns(groups, 132)), rounds = real(turns(groups, 132 * resident));
    const double times[] = {bytes / 3350000000000.0, moved * real(groups) / 5500000000000.0, operations * busiest / 253440000000.0,
                            passes * busiest / 1980000000.0, waits * 4e-07 * rounds};
    double most = 0.0;
    int k;
    for (k = 0; k < 5; k++)
        if (times[k] > most) most = times[k];
    return groups > 0 ? 5e-06 + most : 0.0;
}

/* Seconds of a variant at these sizes, which are at least 1; -1 where it has too many groups, or a buffer too many elements. */
static double estimate(int variant, const int64_t *sizes)
{
    double total = 0.0;
    int64_t groups;
    switch (variant) {
    case 0: /* made for I=2048, K=2048, J=2048; the fastest at 28 of 131 sizes that were looked at */
        groups = saturated(saturated(saturated((floordiv(sizes[2] + 127, 128)), 16), (floordiv(sizes[0] + 127, 128))), 16) / 256; /* host_v0_1 */
        if (groups > 2147483647) return -1.0;
        total += launch_seconds(groups, 8,
                290816.0*count((floordiv(sizes[1] + 15, 16))) + 71680.0,
                896.0*count((floordiv(sizes[1] + 15, 16))),
                1024.0*count((sizes[1])) + 262144.0,
                1.0*count((floordiv(sizes[1] + 15, 16))),
                real(saturated(saturated(4, (sizes[0])), (sizes[1]))) + real(saturated(saturated(4, (sizes[1])), (sizes[2]))) + real(saturated(saturated(4, (sizes[0])), (sizes[2]))));
        break;
    case 1: /* made for I=64, K=64, J=64; the fastest at 74 of 131 sizes that were looked at */
        groups = saturated(saturated(saturated((floordiv(sizes[2] + 31, 32)), 8), (floordiv(sizes[0] + 15, 16))), 16) / 128; /* host_v1_1 */
        if (groups > 2147483647) return -1.0;
        total += launch_seconds(groups, 16,
                13952.0*count((floordiv(sizes[1] + 15, 16))) + 7808.0,
                152.0*count((floordiv(sizes[1] + 15, 16))),
                192.0*count((sizes[1])) + 11264.0,
                1.0*count((floordiv(sizes[1] + 15, 16))) + 1.0,
                real(saturated(saturated(4, (sizes[0])), (sizes[1]))) + real(saturated(saturated(4, (sizes[1])), (sizes[2]))) + real(saturated(saturated(4, (sizes[0])), (sizes[2]))));
        break;
    case 2: /* made for I=64, K=16384, J=64; the fastest at 13 of 131 sizes that were looked at */
        if (saturated(saturated(128, (sizes[0])), (sizes[2])) > 1073741824) return -1.0; /* C_parts */
        groups = saturated(saturated(saturated(saturated((floordiv(sizes[2] + 63, 64)), 16), (floordiv(sizes[0] + 63, 64))), 16), 128) / 256; /* host_v2_1 */
        if (groups > 2147483647) return -1.0;
        total += launch_seconds(groups, 8,
                80640.0*count((floordiv(sizes[1] + 2047, 2048))) + 33792.0,
                448.0*count((floordiv(sizes[1] + 2047, 2048))),
                4.0*count((sizes[1])) + 73728.0,
                1.0*count((floordiv(sizes[1] + 2047, 2048))) + 1.0,
                real(saturated(saturated(4, (sizes[0])), (sizes[1]))) + real(saturated(saturated(4, (sizes[1])), (sizes[2]))) + real(saturated(saturated(512, (sizes[0])), (sizes[2]))));
        groups = saturated(saturated(saturated((floordiv(sizes[2] + 31, 32)), (sizes[0])), 32), 8) / 256; /* host_v2_2 */
        if (groups > 2147483647) return -1.0;
        total += launch_seconds(groups, 8,
                12032.0,
                72.0,
                17408.0,
                1.0,
                real(saturated(saturated(4, (sizes[0])), (sizes[2]))) + real(saturated(saturated(512, (sizes[0])), (sizes[2]))));
        break;
    case 3: /* made for I=4096, K=4096, J=1; the fastest at 16 of 131 sizes that were looked at */
        if (saturated(saturated(9, (sizes[0])), (sizes[2])) > 1073741824) return -1.0; /* C_parts */
        groups = saturated(saturated(saturated((sizes[2]), (sizes[0])), 9), 256) / 256; /* host_v3_1 */
        if (groups > 2147483647) return -1.0;
        if (sizes[2] <= 1)
            total += launch_seconds(groups, 8,
                    15360.0*count((floordiv(sizes[1] + 9215, 9216))) + 4337.0,
                    57.0,
                    0.8888888888888892*count((sizes[1])) + 32.0,
                    1.0*count((floordiv(sizes[1] + 9215, 9216))),
                    real(saturated(saturated(4, (sizes[0])), (sizes[1]))) + real(saturated(saturated(4, (sizes[1])), (sizes[2]))) + real(saturated(saturated(36, (sizes[0])), (sizes[2]))));
        else
            total += launch_seconds(groups, 8,
                    15360.0*count((floordiv(sizes[1] + 9215, 9216))) + 4337.0,
                    57.0,
                    4.000000000000001*count((sizes[1])) + 32.0,
                    1.0*count((floordiv(sizes[1] + 9215, 9216))),
                    real(saturated(saturated(4, (sizes[0])), (sizes[1]))) + real(saturated(saturated(4, (sizes[1])), (sizes[2]))) + real(saturated(saturated(36, (sizes[0])), (sizes[2]))));
        groups = saturated(saturated((sizes[2]), (floordiv(sizes[0] + 255, 256))), 256) / 256; /* host_v3_2 */
        if (groups > 2147483647) return -1.0;
        if (sizes[2] <= 1)
            total += launch_seconds(groups, 8,
                    5632.0,
                    0.0,
                    10240.0,
                    1.0,
                    real(saturated(saturated(4, (sizes[0])), (sizes[2]))) + real(saturated(saturated(36, (sizes[0])), (sizes[2]))));
        else
            total += launch_seconds(groups, 8,
                    5632.0,
                    0.0,
                    81920.0,
                    1.0,
                    real(saturated(saturated(4, (sizes[0])), (sizes[2]))) + real(saturated(saturated(36, (sizes[0])), (sizes[2]))));
        break;
    default: return -1.0;
    }
    return total;
}

/* See host_variant. addresses: bits of those of the arrays, some of which may not begin where the accesses of a variant can;
 * 0: they do. */
static int choose(const host *self, const int64_t *sizes, size_t addresses)
{
    static const size_t alignments[] = {1, 1, 1, 1};
    double least = 0.0;
    int k, found = -1;
    if (sizes[0] < 1 || sizes[0] > INT32_MAX
        || sizes[1] < 1 || sizes[1] > INT32_MAX
        || sizes[2] < 1 || sizes[2] > INT32_MAX
        || saturated((sizes[0]), (sizes[1])) > 1073741824
        || saturated((sizes[1]), (sizes[2])) > 1073741824
        || saturated((sizes[0]), (sizes[2])) > 1073741824) return -1;
    for (k = 0; k < host_VARIANTS; k++) {
        double seconds;
        if ((self && self->forced >= 0 && self->forced != k) || addresses % alignments[k]) continue;
        seconds = estimate(k, sizes);
        if (seconds >= 0.0 && (found < 0 || seconds < least)) {
            found = k;
            least = seconds;
        }
    }
    return found;
}

int host_variant(const host *self, cl_int I, cl_int K, cl_int J)
{
    const int64_t sizes[] = {I, K, J};
    return choose(self, sizes, 0);
}

double host_estimate(int variant, cl_int I, cl_int K, cl_int J)
{
    const int64_t sizes[] = {I, K, J};
    if (sizes[0] < 1 || sizes[0] > INT32_MAX
        || sizes[1] < 1 || sizes[1] > INT32_MAX
        || sizes[2] < 1 || sizes[2] > INT32_MAX
        || saturated((sizes[0]), (sizes[1])) > 1073741824
        || saturated((sizes[1]), (sizes[2])) > 1073741824
        || saturated((sizes[0]), (sizes[2])) > 1073741824) return -1.0;
    return estimate(variant, sizes);
}
