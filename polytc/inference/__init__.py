"""ONNX Runtime's Python interface, for programs that were written for it.

    import polytc.inference as onnxruntime                 # one line changes

    import polytc.inference; polytc.inference.replace_onnxruntime()     # before libraries that import onnxruntime themselves

Sessions run on polytc: what options and providers choose among ONNX Runtime's own parts has no effect here, and docs/onnx.md
tells what differs.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from polytc.errors import ArgumentError, ModelError, PolytcError
from polytc.inference.binding import IOBinding
from polytc.inference.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from polytc.inference.session import PROVIDERS, InferenceSession
from polytc.inference.values import ModelMetadata, NodeArg, OrtValue

__version__ = "1.23.0"
"""The version of ONNX Runtime whose interface this is."""

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg",
    "OrtValue", "RunOptions", "SessionIOBinding", "SessionOptions", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_build_info", "get_device", "get_version_string",
    "replace_onnxruntime", "set_default_logger_severity", "set_default_logger_verbosity", "set_seed"]

SessionIOBinding = IOBinding

INNER = ("_pybind_state", "onnxruntime_pybind11_state", "onnxruntime_inference_collection")
"""Modules of ONNX Runtime behind its interface that libraries import names from."""


def get_available_providers() -> list[str]:
    """Where sessions can run."""
    return [PROVIDERS[-1]]


def get_all_providers() -> list[str]:
    """Where they could."""
    return list(PROVIDERS)


def get_device() -> str:
    """Where they run if nothing is said."""
    return "CPU"


def get_version_string() -> str:
    """See `__version__`."""
    return __version__


def set_default_logger_severity(severity: int) -> None:
    """Nothing is logged."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing is logged."""


def enable_telemetry_events() -> None:
    """There are none."""


def disable_telemetry_events() -> None:
    """There are none."""


def get_build_info() -> str:
    """What this is."""
    return "polytc"


def set_seed(seed: int) -> None:
    """Operators that draw random numbers take their seed from the model, or are drawn anew in each run."""


def replace_onnxruntime() -> None:
    """From now on `import onnxruntime` gives this module, in this process; what has imported the other before keeps it."""
    errors: dict[str, Any] = {"InvalidArgument": ArgumentError, "NoSuchFile": ModelError, "InvalidProtobuf": ModelError,
                              "InvalidGraph": ModelError, "NotImplemented": ModelError, "Fail": PolytcError,
                              "RuntimeException": PolytcError}
    public = {n: globals()[n] for n in __all__}
    capi = ModuleType("onnxruntime.capi")
    inner = {n: ModuleType(f"onnxruntime.capi.{n}") for n in INNER}
    for module in inner.values():
        vars(module).update(public | errors)
    vars(capi).update(inner)
    vars(sys.modules[__name__])["capi"] = capi
    sys.modules |= {"onnxruntime": sys.modules[__name__], **{m.__name__: m for m in (capi, *inner.values())}}
