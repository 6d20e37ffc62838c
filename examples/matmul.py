"""Matrix multiplication: one line of text, called on numpy arrays."""

import numpy as np

import polytc

rng = np.random.default_rng(0)
A, B = rng.random((300, 200), np.float32), rng.random((200, 100), np.float32)

C = polytc.run("C[i,j] += A[i,k] * B[k,j]", A=A, B=B)
print("largest difference from numpy:", abs(C - A @ B).max())

# A compiled operator specialises on the shapes and types of each call, and keeps the code.
layer = polytc.compile("""
    T[b,o] += X[b,i] * W[i,o]            # T is a temporary
    Y[b,o]  = max(T[b,o] + bias[o], 0)
""")
Y = layer(X=A, W=B, bias=np.zeros(100, np.float32))
print("layer:", layer, Y.shape, Y.dtype)
assert np.allclose(Y, np.maximum(A @ B, 0), rtol=1e-4)
