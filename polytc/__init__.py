"""polytc: a polyhedral compiler for tensor expressions.

    import polytc
    C = polytc.run("C[i,j] += A[i,k]*B[k,j]", A=A, B=B)

Every name below is imported when it is first used, so that `import polytc` is quick and needs no optional library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polytc.lazy_names import lazily

if TYPE_CHECKING:
    from polytc.api import FixedOp, Op, compile, compiled, evaluate, run
    from polytc.contraction import einsum, tensordot, transpose
    from polytc.errors import ArgumentError, CompileError, IllegalTransform, ModelError, PolytcError, TargetError
    from polytc.graph import Graph, Model, load_onnx
    from polytc.inference import InferenceSession
    from polytc.stages import Recipe, alternatives, build, devices, explain, intrinsic, lower, schedule

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(("FixedOp", "Op", "compile", "compiled", "evaluate", "run"), "polytc.api"),
    **dict.fromkeys(("einsum", "tensordot", "transpose"), "polytc.contraction"),
    **dict.fromkeys(("ArgumentError", "CompileError", "IllegalTransform", "ModelError", "PolytcError", "TargetError"),
                    "polytc.errors"),
    **dict.fromkeys(("Graph", "Model", "load_onnx"), "polytc.graph"),
    "InferenceSession": "polytc.inference",
    **dict.fromkeys(("Recipe", "alternatives", "build", "devices", "explain", "intrinsic", "lower"), "polytc.stages"),
}
"""Public name -> the module that defines it."""

__all__ = ["ArgumentError", "CompileError", "FixedOp", "Graph", "IllegalTransform", "InferenceSession", "Model", "ModelError",
           "Op", "PolytcError", "Recipe", "TargetError", "__version__", "alternatives", "build", "compile", "compiled",
           "devices", "einsum", "evaluate", "explain", "intrinsic", "load_onnx", "lower", "run", "schedule", "tensordot",
           "transpose"]


_named = lazily(__name__, _HOME)


def __getattr__(name: str) -> Any:
    return import_module("polytc.schedule") if name == "schedule" else _named(name)  # the package, which can be called


def __dir__() -> list[str]:
    return sorted(__all__)
