"""Inputs and outputs that are bound before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polytc.inference.values import OrtValue, numpy_type

if TYPE_CHECKING:
    from polytc.inference.session import InferenceSession


class IOBinding:
    """What a run of a session reads and where its results go."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, OrtValue] = {}
        self._wanted: dict[str, OrtValue | None] = {}
        self._results: dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Read an array, in the state in which it is at the time of the run."""
        self._inputs[name] = OrtValue(np.asarray(array))

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Read a value."""
        self._inputs[name] = value

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int) -> None:
        """Read memory of the processor at an address."""
        self._inputs[name] = OrtValue(_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Write a value."""
        self._wanted[name] = value

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None, shape: Any = None,
                    buffer_ptr: int | None = None) -> None:
        """Have an output: in new memory, or in that at an address."""
        self._wanted[name] = OrtValue(_at(buffer_ptr, element_type, shape)) if buffer_ptr else None

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._wanted.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Runs wait for what they read."""

    def synchronize_outputs(self) -> None:
        """When a run is over, its results are there."""

    def run(self) -> None:
        """See `InferenceSession.run_with_iobinding`."""
        names = list(self._wanted) or [v.name for v in self._session.get_outputs()]
        found = self._session.run(names, dict(self._inputs))
        self._results = {}
        for name, array in zip(names, found, strict=True):
            place = self._wanted.get(name)
            if place is not None:
                place.update_inplace(array)
            self._results[name] = place or OrtValue(array)

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order in which they were bound."""
        return list(self._results.values())

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The same as arrays."""
        return [value.numpy() for value in self._results.values()]


def _at(address: int, element_type: Any, shape: Any) -> np.ndarray:
    """The array at an address."""
    import ctypes

    dtype = numpy_type(element_type)
    count = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    memory = memoryview((ctypes.c_char * count).from_address(address)).cast("B")
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(tuple(shape))
