"""What polytc makes of a model, beside what ONNX Runtime does.

Floats may differ by some last places of the coarsest type in the model, relative to the largest number of the tensor;
integers, truth values and words not at all. What differs more is judged once more: ONNX Runtime runs the same model with all
floats that go into it (inputs and constants) moved by some last places, several times. A result between the smallest and the
largest of those is explained by rounding (a sum at a tie of a quantisation, a score at a threshold); all else is wrong.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import polytc
from polytc import errors
from tests.generator.choices import replayed
from tests.graph.random_models.models import Made, made
from tests.graph.saturation import may_be_unwritten, may_saturate

PLACES = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-9}
"""What floats may differ by: some last places of the coarsest type in the model."""
MOVES, MOVED = 12, 1e-5


@dataclass(frozen=True)
class Outcome:
    """kind: 'right'; 'tie' where rounding explains what differs; 'refused' by both; 'skipped' where ONNX Runtime crashes, has
    no kernel or is wrong (tests.graph.saturation); 'left' where polytc gives nodes to ONNX Runtime or onnx; 'unsupported' where
    polytc refuses what ONNX Runtime runs; 'accepted' where it runs what ONNX Runtime refuses; 'wrong'; 'failed' with another
    exception; the worker adds 'crash' and 'hang'. text: the model; recipes: what made it."""

    kind: str
    detail: str = ""
    text: str = ""
    recipes: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        return self.kind in ("wrong", "failed", "crash", "hang")


def judge(numbers: Sequence[int]) -> Outcome:
    """The outcome of the model that these choices decide."""
    case = made(replayed(numbers))
    kind, detail = _judged(case)
    return Outcome(kind, detail, str(case), case.recipes)


def only_onnx_runtime(numbers: Sequence[int]) -> Outcome:
    """Whether ONNX Runtime ends: asked when a process has crashed."""
    try:
        reference(made(replayed(numbers)))
    except Exception as refusal:
        return Outcome("refused", str(refusal))
    return Outcome("right")


def reference(case: Made) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(case.feeds))


def _judged(case: Made) -> tuple[str, str]:
    try:
        expected, refusal = reference(case), ""
    except Exception as e:
        expected, refusal = None, str(e)
    if "NOT_IMPLEMENTED" in refusal:
        return "skipped", refusal[:200]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model = polytc.load_onnx(case.model.SerializeToString()).compile(threads=1, symbolic=case.symbolic)
            found = model.run(None, dict(case.feeds))
            left = model.fallbacks()
    except errors.PolytcError as e:
        return ("refused" if expected is None else "unsupported"), str(e)
    except Exception:
        return "failed", traceback.format_exc() + refusal
    if expected is None:
        return "accepted", refusal[:300]
    differing = difference(found, expected, PLACES[np.dtype(case.coarsest)])
    if differing and may_saturate(case.model):
        return "skipped", "ONNX Runtime's sums saturate on this processor"
    if differing and may_be_unwritten(case.model, case.feeds):
        return "skipped", "ONNX Runtime does not write sums without terms"
    if differing and not _explained(case, found, expected):
        return "wrong", differing
    if left:
        return "left", "; ".join(str(x) for x in left)
    return ("tie", differing) if differing else ("right", "")


def difference(found: Sequence[Any], expected: Sequence[Any], places: float = 2e-5) -> str:
    """What differs first, or ''. places: what floats may differ by, relative to the largest."""
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if b.dtype.kind in "OU":
            if a.shape != b.shape or not all(str(x) == str(y) for x, y in zip(a.ravel(), b.ravel(), strict=True)):
                return f"output {k}: {a!r} and not {b!r}"
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"output {k}: {a.dtype}{a.shape} and not {b.dtype}{b.shape}"
        off = ~_close(a, b, places)
        if off.any():
            at = tuple(int(i) for i in np.argwhere(off)[0])
            return f"output {k}, {off.sum()} of {off.size}, at {at}: {a[at]!r} and not {b[at]!r}"
    return ""


def _close(a: np.ndarray, b: np.ndarray, places: float) -> np.ndarray:
    if b.dtype.kind != "f":
        return np.asarray(a == b)
    largest = np.abs(b[np.isfinite(b)].astype(np.float64)).max(initial=1e-3)
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.asarray((np.abs(x - y) <= max(places, PLACES[b.dtype]) * largest) | (x == y) | (np.isnan(x) & np.isnan(y)))


def _moved(array: np.ndarray, r: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    most = 1e-3 if array.dtype == np.float16 else MOVED
    return np.asarray(array.astype(np.float64) * (1 + r.uniform(-most, most, array.shape))).astype(array.dtype)


def _explained(case: Made, found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Do results move as far as these are off when the floats that go in move by some last places?"""
    r, results = np.random.default_rng(0), [expected]
    for _ in range(MOVES):
        other = onnx.ModelProto()
        other.CopyFrom(case.model)
        for x in other.graph.initializer:
            if x.data_type not in (onnx.TensorProto.STRING,):
                x.CopyFrom(numpy_helper.from_array(_moved(numpy_helper.to_array(x), r), x.name))
        try:
            results.append(reference(Made(other, {n: _moved(a, r) for n, a in case.feeds.items()})))
        except Exception:
            return False
    for k, a in enumerate(map(np.asarray, found)):
        if not difference([a], [expected[k]], PLACES[np.dtype(case.coarsest)]):
            continue  # also where other floats make another shape
        all_of = [np.asarray(x[k]) for x in results]
        if any((x.dtype, x.shape) != (a.dtype, a.shape) for x in all_of):
            return False
        if a.dtype.kind in "OU":
            if not all(any(str(x.ravel()[i]) == str(w) for x in all_of) for i, w in enumerate(a.ravel())):
                return False
            continue
        wide = [x.astype(np.float64) for x in all_of]
        low, high = np.fmin.reduce(wide), np.fmax.reduce(wide)
        margin = (high - low) if a.dtype.kind == "f" else 0
        inside = (a >= low - margin) & (a <= high + margin)
        if not (inside | _close(a, all_of[0], PLACES[np.dtype(case.coarsest)])).all():
            return False
    return True
