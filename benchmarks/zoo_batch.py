"""A model of a folder with another batch: the first extent of each input that is 1 or open there is so many.

    python benchmarks/zoo.py FOLDER --batch 8 --only resnet18,mobilenetv2,minilm_l6_dyn
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def batched(path: Path, batch: int, to: Path) -> Path:
    """The model with inputs of that batch, as a file in the folder `to`; what it says about other extents is left out, as
    it may have been true for one batch only, and shapes of Reshape and Expand that begin with 1 begin with the batch. A model
    of open extents stays as it is, as all batches are its."""
    model = onnx.load(str(path))
    constants = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in constants]
    if any(not d.HasField("dim_value") for v in inputs for d in v.type.tensor_type.shape.dim):
        return path
    for v in inputs:
        if _leads(v) == 1:
            v.type.tensor_type.shape.dim[0].dim_value = batch
    shapes = {n.input[1] for n in model.graph.node if n.op_type in ("Reshape", "Expand")}
    stored = [t for t in model.graph.initializer if t.name in shapes]
    stored += [n.attribute[0].t for n in model.graph.node if n.op_type == "Constant" and n.output[0] in shapes]
    for t in stored:
        shape = numpy_helper.to_array(t)
        if len(shape) > 1 and shape[0] == 1:
            t.CopyFrom(numpy_helper.from_array(np.array([batch, *shape[1:]]), t.name))
    for v in model.graph.output:
        v.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    written = to / f"{path.parent.name}-{batch}.onnx"
    onnx.save(model, str(written), save_as_external_data=True)
    return written


def _leads(v: onnx.ValueInfoProto) -> int:
    dims = v.type.tensor_type.shape.dim
    return dims[0].dim_value if dims else 0


def repeated(feeds: Mapping[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    """Rows for the whole batch, each a little different from the one before."""
    return {name: np.concatenate([np.roll(x, k, -1) for k in range(batch)]) if x.ndim and len(x) == 1 else x
            for name, x in feeds.items()}
