"""Schedules of one's own: loops by name, each step checked, saved as YAML."""

import tempfile
from pathlib import Path

import numpy as np

import polytc

rng = np.random.default_rng(0)
TEXT = """
    C[i,j] += A[i,k] * B[k,j]
    Y[i,j]  = max(C[i,j] + b[j], 0)
"""
A, B, b = rng.random((250, 120), np.float32), rng.random((120, 190), np.float32), rng.random(190, np.float32)
expected = np.maximum(A @ B + b, 0)

# It begins with the order of the text: each statement in loops of its own.
s = polytc.schedule(TEXT, shapes={"A": A.shape, "B": B.shape, "b": b.shape})
print(s, "\n")

# Each step gives a new schedule, and has been checked against the dependences.
s = s.fuse("S1_init", "S1", "S2", depth=2).tile("S1", i=50, j=64)
s = s.parallel("S1", "i.0").cache("S1", "A", at="i.0")
print(s, "\n")

# What it leaves open, vectors and registers here, is decided for the machine when it is compiled.
print(s.complete("cpu"), "\n")
assert np.allclose(polytc.run(TEXT, A, B, b, schedule=s), expected, rtol=1e-4)

# What would change the result is refused, with two instances and the element that both touch.
T = "T[i] = X[i] * 2;  Y[i] = T[i] + T[i+1]"
X = rng.random(1001, np.float32)
stencil = polytc.schedule(T, shapes={"X": X.shape})
try:
    stencil.fuse("S1", "S2")
except polytc.IllegalTransform as refusal:
    print(refusal, "\n")
fused = stencil.shift("S2", i=1).fuse("S1", "S2")       # Y[i] one iteration later: T[i+1] is there
print(fused, "\n")
assert np.allclose(polytc.run(T, X, schedule=fused), 2 * (X[:-1] + X[1:]))

# A schedule is a YAML file. It fits the program that it was made for, and no other.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "layer.yaml"
    s.save(path)
    layer = polytc.compile(TEXT, schedule=path.read_text())
    assert np.allclose(layer(A, B, b), expected, rtol=1e-4)
    try:
        layer(A[:100], B, b)
    except polytc.CompileError as refusal:
        print(refusal)
