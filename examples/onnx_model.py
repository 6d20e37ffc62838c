"""An ONNX model, compiled end to end: `python examples/onnx_model.py model.onnx [input=1,3,224,224 ...]`."""

import sys

import numpy as np

import polytc

graph = polytc.load_onnx(sys.argv[1])
print(graph.report())

shapes = {name: tuple(map(int, extents.split(","))) for name, extents in (a.split("=") for a in sys.argv[2:])}
rng = np.random.default_rng(0)
feeds = {}
for value in graph.inputs:
    shape = shapes.get(value.name) or tuple(d if isinstance(d, int) else 1 for d in value.shape or ())
    feeds[value.name] = rng.standard_normal(shape).astype(value.dtype.numpy if value.dtype else np.float32)

model = graph.compile(threads=1)
for value, array in zip(graph.outputs, model.run(None, feeds)):
    print(value.name, array.shape, array.dtype)
