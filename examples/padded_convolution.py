"""A strided convolution with padding, and every stage of its compilation.

The guarded read `(I[...] else 0)` is the padding: outside of I it has the value 0. As it puts no bound on the indices, `where`
gives the extent of the result.
"""

import numpy as np

import polytc

TEXT = """
    O[n,m,h,w] += (I[n,c,2*h+r-1,2*w+s-1] else 0) * W[m,c,r,s]  where h in 0:(I.shape[2]+1)//2, w in 0:(I.shape[3]+1)//2
"""

rng = np.random.default_rng(0)
image, weights = rng.standard_normal((1, 3, 17, 20), np.float32), rng.standard_normal((8, 3, 3, 3), np.float32)

result = polytc.run(TEXT, I=image, W=weights)
reference = polytc.evaluate(TEXT, I=image, W=weights)
print("shape", result.shape, "largest difference from the reference evaluator:", abs(result - reference).max())
assert np.allclose(result, reference, atol=1e-4)

lowered = polytc.lower(TEXT, shapes={"I": image.shape, "W": weights.shape})
print(lowered.program)
print(lowered.schedule)
