"""A generic operator: `*i` stands for any number of axes, so one text serves every rank."""

import numpy as np

import polytc

SOFTMAX = """
op Softmax(X[*i, j]) -> Y[*i, j] {
    M[*i] max= X[*i, j]
    E[*i, j] = exp(X[*i, j] - M[*i])
    S[*i] += E[*i, j]
    Y[*i, j] = E[*i, j] / S[*i]
}
"""

softmax = polytc.compile(SOFTMAX)
for shape in [(10,), (4, 10), (2, 3, 10)]:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    difference = abs(softmax(x) - e / e.sum(-1, keepdims=True)).max()
    print(shape, "largest difference from numpy:", difference)
    assert difference < 1e-5
