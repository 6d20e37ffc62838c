"""InferenceSession: a model that is run as ONNX Runtime's sessions are."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polytc.errors import ArgumentError, ModelError, PolytcError, fail
from polytc.graph import Model, load_onnx
from polytc.graph.ir import Graph, Value
from polytc.inference.binding import IOBinding
from polytc.inference.options import RunOptions, SessionOptions
from polytc.inference.values import ModelMetadata, NodeArg, OrtValue

PROVIDERS = ("OpenCLExecutionProvider", "CPUExecutionProvider")
"""Where a session may run: on a device of OpenCL, for who asks for it, or on the processor."""


class InferenceSession:
    """A model, ready to run. Safe to call from several threads: runs take turns. It can be copied and pickled.

    path_or_bytes: a path, the bytes of a file, or a ModelProto. sess_options: see SessionOptions. providers: names, or pairs of
    a name and options; the first that polytc has is taken, others are warned of. Raises ModelError.
    """

    def __init__(self, path_or_bytes: Any, sess_options: SessionOptions | None = None,
                 providers: Sequence[str | tuple[str, Any]] | None = None, provider_options: Any = None, **kwargs: Any) -> None:
        self._source, self._options = path_or_bytes, sess_options if sess_options is not None else SessionOptions()
        self._provider = _provider(providers)
        self._graph = load_onnx(path_or_bytes)
        self._model = self._compiled(self._graph)
        self._overriding: dict[tuple[str, ...], Model] = {}
        self._described: tuple[ModelMetadata, list[NodeArg]] | None = None
        self._profiled: dict[str, Any] | None = None
        self._started = time.time_ns()

    def _compiled(self, graph: Graph) -> Model:
        options = self._options
        sizes, shapes = options.free_dimensions, dict[str, tuple[int, ...]]()
        for v in graph.inputs:
            shape = [sizes.get(d, d) if isinstance(d, str) else d for d in v.shape or ()]
            if v.shape is not None and shape != list(v.shape) and all(isinstance(d, int) for d in shape):
                shapes[v.name] = tuple(d for d in shape if isinstance(d, int))
        target = "opencl" if self._provider == PROVIDERS[0] else "cpu"
        return graph.compile(target=target, threads=options.intra_op_num_threads or None, shapes=shapes or None)

    # ---- what there is

    def get_inputs(self) -> list[NodeArg]:
        """What each run is given."""
        return [NodeArg.of(v) for v in self._graph.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """What it may give back."""
        return [NodeArg.of(v) for v in self._graph.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Weights that a run may be given other values for."""
        return self._about()[1]

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says about itself."""
        return self._about()[0]

    def get_providers(self) -> list[str]:
        """Where it runs."""
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """There are none."""
        return {self._provider: {}}

    def get_session_options(self) -> SessionOptions:
        """What it was made with."""
        return self._options

    def set_providers(self, providers: Sequence[str | tuple[str, Any]] | None = None, provider_options: Any = None) -> None:
        """Run elsewhere from now on."""
        self._provider = _provider(providers)
        self._model, self._overriding = self._compiled(self._graph), {}

    def disable_fallback(self) -> None:
        """There is none."""

    def enable_fallback(self) -> None:
        """There is none."""

    def _about(self) -> tuple[ModelMetadata, list[NodeArg]]:
        if self._described is None:
            from polytc.graph import onnx as door  # slow to import, and runs do without

            fields, stored = door.about(self._source)
            self._described = ModelMetadata(**fields), [NodeArg.of(v) for v in stored]
        return self._described

    # ---- runs

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
            ) -> list[Any]:
        """The outputs of these names, all if there are none. input_feed: arrays, OrtValues, or lists, which take the type that
        the model declares. Raises ArgumentError E610, E611."""
        names = None if output_names is None or (not isinstance(output_names, str) and not len(output_names)) else output_names
        if not isinstance(input_feed, Mapping):
            return self._model.run(names, input_feed)
        model = self._model_for(input_feed)
        declared = {v.name: v for v in model.inputs}
        feeds = {n: _array(declared.get(n), value) for n, value in input_feed.items()}
        if self._options.enable_profiling:
            self._profiled = feeds
        try:
            return model.run(names, feeds)
        except ModelError as error:
            if error.code != "E606" or all(v.shape is None for v in model.outputs):
                raise
            warnings.warn(f"outputs are not what the file declares: {error.diagnostics[0].message}", UserWarning, stacklevel=2)
            self._model, self._overriding = self._compiled(_undeclared(self._graph)), {}
            return self._model_for(input_feed).run(names, feeds)

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[list[Any], Any, str], None], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Run in a thread of its own, and call `callback(outputs, user_data, error)` then; error: '' if there is none."""
        def work() -> None:
            try:
                found, error = self.run(output_names, input_feed, run_options), ""
            except PolytcError as refusal:
                found, error = [], str(refusal)
            callback(found, user_data, error)
        threading.Thread(target=work, name="polytc-run", daemon=True).start()

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """As `run`, with results as values."""
        return [OrtValue(a) for a in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """Inputs and outputs to be bound for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound."""
        iobinding.run()

    def end_profiling(self) -> str:
        """Time each kernel of the last run's model on the last run's inputs, once more, and write a trace for Chrome and
        Perfetto; the name of its file. Raises ArgumentError E610 where nothing was to be profiled."""
        if self._profiled is None:
            raise fail("E610", "there is no run to be profiled", kind=ArgumentError,
                       notes=["SessionOptions.enable_profiling = True, then run"])
        name = f"{self._options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        self._model_for(self._profiled).profile(self._profiled, runs=1).save(name)
        self._profiled = None
        return name

    def get_profiling_start_time_ns(self) -> int:
        """When the session was made."""
        return self._started

    def _model_for(self, feeds: Mapping[str, Any]) -> Model:
        """The model, with weights as inputs that are given."""
        known = {v.name for v in self._graph.inputs}
        names = tuple(sorted(n for n in feeds if n not in known))
        if not names or not {*names} <= {v.name for v in self.get_overridable_initializers()}:
            return self._model  # which says what is wrong
        if names not in self._overriding:
            from polytc.graph import onnx as door

            self._overriding[names] = self._compiled(load_onnx(door.without_stored(self._source, names)))
        return self._overriding[names]


def _undeclared(graph: Graph) -> Graph:
    """The graph whose outputs may have any shape, as they may for ONNX Runtime."""
    return replace(graph, outputs=tuple(replace(v, shape=None) for v in graph.outputs))


def _provider(given: Sequence[str | tuple[str, Any]] | None) -> str:
    """The first that polytc has; the processor if there is none."""
    names = [p if isinstance(p, str) else p[0] for p in given or ()]
    for name in names:
        if name in PROVIDERS:
            return name
        warnings.warn(f"polytc has no provider {name!r}: it has {', '.join(PROVIDERS)}", UserWarning, stacklevel=3)
    return PROVIDERS[-1]


def _array(v: Value | None, value: Any) -> Any:
    """What is given for an input; lists and numbers take its type."""
    if isinstance(value, OrtValue):
        return value.numpy()
    if isinstance(value, list | tuple | int | float) and v is not None and v.tensor and v.dtype is not None:
        return np.array(value, v.dtype.numpy)
    return value
