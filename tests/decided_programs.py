"""Programs whose decisions are printed, edited and given back."""

from __future__ import annotations

PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (130, 140), "B": (140, 150)}),
    "convolution": ("O[m,h,w] += (I[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:28, w in 0:28",
                    {"I": (16, 28, 28), "W": (24, 16, 3, 3)}),
    "softmax": ("M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i]", {"X": (17, 300)}),
    "attention": ("S[i,j] += Q[i,d]*K[j,d]; E[i,j] = exp(S[i,j]/8); Z[i] += E[i,j]; Y[i,d] += E[i,j]*V[j,d]/Z[i]",
                  {"Q": (128, 24), "K": (128, 24), "V": (128, 24)}),
    "sum": ("s += X[i]", {"X": (5000,)}),
    "dot": ("s[i] += A[i,k]*B[i,k]", {"A": (9, 400), "B": (9, 400)}),
    "transpose": ("Y[j,i] = X[i,j]*2 + 1", {"X": (90, 70)}),
    "bias": ("C[i,j] += A[i,k]*B[k,j]; Y[i,j] = max(C[i,j] + b[j], 0)", {"A": (33, 64), "B": (64, 48), "b": (48,)}),
    "heat": ("def heat(inout f32[100] A) -> (Y) { for t in 0:4 { B[i] = (A[i-1] + A[i] + A[i+1])/3 where i in 1:99; "
             "A[i] = B[i] where i in 1:99 }; Y[i] = A[i]*2 }", {}),
    "smoothed": ("H[i,j] = X[i,j] + X[i,j+1]; V[i,j] = H[i,j]*H[i+1,j]; R[i] += V[i,j]", {"X": (40, 65)}),
}
"""name -> (text, shapes)."""

EDITS: dict[str, tuple[str, str, str]] = {
    "matmul": ("pack S1: tensor=B operand=1 along=j width=32\ntile S1_init: rows=i,j sizes=4,32 order=i,j vector=j",
               "tile S1_init: rows=i,j sizes=3,8 order=i,j vector=j blocked=S1 along=k block=50 depth=1",
               "threads S1_init: parallel=no"),
    "convolution": ("winograd: none", "winograd S1: results=2 block=14", "winograd: none\npad: none"),
    "softmax": ("lanes: none", "fusion: policy=min", "lanes S1: along=j lanes=7"),
    "attention": ("factors: none", "pack: none\nlanes S3: along=j lanes=9", "row_blocks S1_init: rows=i block=48"),
    "sum": ("lanes S1: along=i lanes=16", "lanes: none", "tile S1_lanes_init: rows=i_l sizes=16 order=i_l vector=i_l"),
    "dot": ("lanes: none", "lanes S1: along=k lanes=33", "tile S1_lanes_init: rows=i,k_l sizes=1,16 order=k_l,i vector=k_l"),
    "transpose": ("tile S1: rows=j,i sizes=8,8 order=i,j vector=i", "tile S1: rows=j,i sizes=1,1 order=j,i",
                  "tile S1: rows=j,i sizes=16,16 order=j,i vector=i caches=32,32"),
    "bias": ("fusion: policy=min", "group S1_init: statements=S1_init,S1",
             "tile S1_init: rows=i,j sizes=2,24 order=i,j vector=j"),
    "heat": ("band S1: sizes=2,16", "band S1: sizes=4,0", "band S1: sizes=1,33"),
    "smoothed": ("inline: none", "lanes: none", "lanes S3: along=j lanes=20"),
}
"""name -> three records that say something else than polytc does by itself (for AVX-512), without their head."""

SEEN: dict[str, tuple[str, str, str]] = {
    "matmul": ("+140, 32] +C_tile[4, 32]", "+parallel for c0 in 0:43 +for c3 in 0:50", "-parallel for c1"),
    "convolution": ("-O_U[6, 6, +I_pad[16, 30, 30]", "+O_U[4, 4, 16, 24] +O_V[14, 14, 4, 4, 16]",
                    "-O_U[6, 6, +kernel k0(f32 I[16, 28, 28], f32 O[24, 28, 28], f32 W[24, 16, 3, 3])"),
    "softmax": ("-_lanes", "+scratch f32 E[17, 300] +scratch f32 S[17]", "+M_S1_lanes_slice[7] +(c1 * 7)"),
    "attention": ("-Y_unscaled", "-K_packed", "+E_rows[2, 48, 128] +E_rows2[32, 128]"),
    "sum": ("+scratch f32 s_S1_lanes[16] +(c1 * 16)", "-_lanes", "+(c0 * 16) +for c0 in 0:4"),
    "dot": ("-_lanes", "+(c1 * 33)", "+for c2 in 0:25 -unroll"),
    "transpose": ("+X_rows[8, 8]", "+Y[c0, c1] = ", "+for c2 in 0:2 +for c3 in 0:2"),
    "bias": ("+scratch f32 C[33, 48]", "+scratch f32 C[33, 48]", "+for c0 in 0:16 +(c1 * 24)"),
    "heat": ("+active 15)] -for c0 in 0:4", "+for c1 in 0:4", "+ramp(17, 1, 16, active 15)"),
    "smoothed": ("+scratch f32 V[39, 64]", "-_lanes", "+(c1 * 20)"),
}
"""name -> what each of its edits shows in the loops: +text that is only there, -text that is only in polytc's own."""
