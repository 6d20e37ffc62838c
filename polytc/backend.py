"""polytc as a backend of onnx: the functions that onnx.backend.base asks for, as a module and as objects with options.

    import polytc.backend as backend
    outputs = backend.prepare(model).run([x])           # model: a ModelProto, a path or bytes
    outputs = backend.run_node(node, [x])

`backend.native` has the same functions and refuses, with E605 or E608, what only onnx's own evaluator could run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.errors import CompileError
from polytc.graph import Model, load_onnx
from polytc.targets import registry


@dataclass(frozen=True)
class Prepared:
    """A model that is ready to run."""

    model: Model

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **options: Any) -> tuple[Any, ...]:
        """All outputs. inputs: in the order of the model's, or by name."""
        if not isinstance(inputs, Mapping):
            inputs = dict(zip((v.name for v in self.model.inputs), inputs, strict=True))
        return tuple(self.model.run(None, {n: np.asarray(v) if isinstance(v, np.generic) else v for n, v in inputs.items()}))


@dataclass(frozen=True)
class Backend:
    """strict: refuse what onnx's evaluator would have to run. threads: of parallel loops, None for all."""

    strict: bool = False
    threads: int | None = None

    def supports_device(self, device: str) -> bool:
        """CPU, EVALUATE, and the names of other targets that run here: OPENCL, INTERP. A number after a colon is ignored."""
        name = _target(device)
        return name == "evaluate" or name in registry.target_names() and registry.runs_here(name)

    def is_compatible(self, model: Any, device: str = "CPU", **options: Any) -> bool:
        """Can the model be imported?"""
        try:
            load_onnx(model, strict=self.strict)
        except CompileError:
            return False
        return self.supports_device(device)

    def prepare(self, model: Any, device: str = "CPU", **options: Any) -> Prepared:
        """The model, compiled as far as its shapes are known. options: of `Graph.compile`."""
        given = {"threads": self.threads, "strict": self.strict, **options}
        graph = load_onnx(model, strict=given["strict"])
        return Prepared(graph.compile(target=_target(device), **given))

    def run_model(self, model: Any, inputs: Sequence[Any], device: str = "CPU", **options: Any) -> tuple[Any, ...]:
        """The outputs for these inputs."""
        return self.prepare(model, device, **options).run(inputs)

    def run_node(self, node: Any, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None,
                 **options: Any) -> tuple[Any, ...]:
        """The outputs of one node, by the newest version of its operator unless opset_version= says another."""
        from polytc.graph.onnx import model_of_node  # the onnx library is optional and slow to import

        version = options.pop("opset_version", None)
        arrays = [np.asarray(a) if not isinstance(a, list) else a for a in inputs]
        return self.run_model(model_of_node(node, arrays, version), arrays, device, **options)


def _target(device: str) -> str:
    """The target behind a name of onnx's: 'CPU', 'OPENCL:0'."""
    return device.partition(":")[0].lower()


_default = Backend()
native = Backend(strict=True)
supports_device, is_compatible, prepare = _default.supports_device, _default.is_compatible, _default.prepare
run_model, run_node = _default.run_model, _default.run_node
