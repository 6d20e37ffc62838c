"""What prepares inputs: Scaler, Normalizer, Imputer, Binarizer, encoders, and what chooses and joins features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Site, Step, View
from polytc.graph.operators.estimators.scores import rows_of


def scaler(site: Site) -> Lowering:
    offset, scale = (np.array(site.attr(n) or [d], np.float32) for n, d in (("offset", 0.0), ("scale", 1.0)))
    shape = site.shape(0)
    width = shape[-1] if shape else 1
    if len(offset) != len(scale) or len(offset) not in (1, width):
        raise site.misfit(f"{len(offset)} offsets and {len(scale)} scales for {width} features")
    if not shape:
        return Apply("preparation.ScalerByOne", (0,), attrs={"offset": float(offset[0]), "scale": float(scale[0])})
    return Apply("preparation.Scaler", (0, _each(offset, width), _each(scale, width)))


def _each(numbers: np.ndarray, width: int) -> np.ndarray:
    return np.repeat(numbers, width) if len(numbers) == 1 else numbers


def binarizer(site: Site) -> Lowering:
    return Apply("preparation.Binarizer", (0,), attrs={"threshold": float(np.float32(site.attr("threshold", 0.0)))},
                 spell={"type": site.dtype(0).name})


def imputer(site: Site) -> Lowering:
    """Floats and integers have attributes of their own."""
    wide = site.dtype(0).kind == "f"
    numpy = site.dtype(0).numpy
    values = np.array(site.attr("imputed_value_floats" if wide else "imputed_value_int64s") or [], numpy)
    shape = site.shape(0)
    width = shape[-1] if shape else 1
    if not shape or len(values) not in (1, width):
        raise site.misfit(f"{len(values)} values for {width} features")
    replaced = np.array([site.attr("replaced_value_float" if wide else "replaced_value_int64", 0)], numpy)
    if wide and np.isnan(replaced[0]):
        return Apply("preparation.ImputeNaN", (0, _each(values, width)))
    return Apply("preparation.Impute", (0, _each(values, width), replaced))


def normalizer(site: Site) -> Lowering:
    steps, source, _, _ = rows_of(site)
    name = {"MAX": "Max", "L1": "L1", "L2": "L2"}[site.attr("norm", "MAX")]
    if not steps:
        return Apply(f"preparation.Normalizer{name}", (source,))
    return (*steps, Apply(f"preparation.Normalizer{name}", (source,), ("rows",)), View("rows", site.shape(0)))


# ---- encoders

LISTS = ("int64s", "floats", "strings")


def label_encoder(site: Site) -> Lowering:
    """Keys to values. Strings have been replaced by codes."""
    keys, values = _listed(site, "keys"), _listed(site, "values")
    if keys is None or values is None or len(keys) != len(values):
        raise site.unsupported("its keys and values are not lists of as many numbers")
    return _encoded(site, keys.astype(site.dtype(0).numpy), values, _default(site, values.dtype))


def _listed(site: Site, name: str) -> np.ndarray | None:
    tensor = site.attr(f"{name}_tensor")
    if isinstance(tensor, np.ndarray) and tensor.dtype.kind in "if":
        return tensor.reshape(-1)
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if site.attr(f"{name}_{kind}") is not None:
            return np.array(site.attr(f"{name}_{kind}"), dtype)
    return None


def _default(site: Site, dtype: np.dtype) -> np.ndarray:
    tensor = site.attr("default_tensor")
    if isinstance(tensor, np.ndarray) and tensor.dtype.kind in "if":
        return tensor.reshape(-1)[:1].astype(dtype)
    return np.array([site.attr("default_int64", -1) if dtype.kind == "i" else site.attr("default_float", -0.0)], dtype)


def _encoded(site: Site, keys: np.ndarray, values: np.ndarray, default: np.ndarray) -> Lowering:
    nan = np.flatnonzero(keys != keys) if site.opset >= 4 else np.zeros(0, np.int64)
    numbers, first = np.unique(keys[keys == keys], return_index=True)
    told = values[keys == keys][first]
    if not len(numbers):
        numbers, told = np.zeros(1, keys.dtype), default
    of_nan = values[nan[:1]] if len(nan) else default
    return Apply("preparation.Encode", (0, numbers, np.concatenate([default, of_nan, told])))


def one_hot_encoder(site: Site) -> Lowering:
    """What is no category is 0 in all columns. With zeros=0 that is an error for onnx, and one that a run does not see."""
    cats = site.attr("cats_int64s")
    if not cats:
        raise site.unsupported("its categories are no numbers")
    return Apply("preparation.OneHot", (0, np.array(cats, np.int64)))


def array_feature_extractor(site: Site) -> Lowering:
    """Columns of the last axis."""
    shape, places = site.shape(0), site.shape(1)
    if not shape:
        raise site.misfit("it chooses from a single number")
    site.within(1, site.along(0, len(shape) - 1, back=False))
    rows, width, count = math.prod(shape[:-1]), shape[-1], math.prod(places)
    steps: list[Step] = []
    source, index = _seen(steps, 0, shape, (rows, width), "x"), _seen(steps, 1, places, (count,), "places")
    lead = shape[:-1] if len(shape) > 1 else (1,)
    if not rows * count:
        return Known(np.zeros((*lead, count), site.dtype(0).numpy))
    if len(shape) <= 2:
        return (*steps, Apply("preparation.Pick", (source, index), attrs={"extent": width}))
    return (*steps, Apply("preparation.Pick", (source, index), ("picked",), {"extent": width}),
            View("picked", (*lead, count)))


def _seen(steps: list[Step], source: int, shape: Sequence[int], wanted: tuple[int, ...], name: str) -> Ref:
    if tuple(shape) == wanted:
        return source
    steps.append(View(source, wanted, name))
    return name


def feature_vectorizer(site: Site) -> Lowering:
    """Inputs side by side, each cut or filled with 0 to its width."""
    widths = site.attr("inputdimensions") or []
    rows = [s[0] if len(s or ()) == 2 else 1 for s in site.shapes if s is not None]
    if len(widths) != len(site.shapes) or not rows or any(n != rows[0] for n in rows):
        raise site.misfit("its inputs do not have as many rows, or inputdimensions is no list of their widths")
    count, at = rows[0], 0
    steps, names, writes = list[Step](), list[str](), list[str]()
    for k, width in enumerate(widths):
        shape = site.shape(k)
        own = _seen(steps, k, shape, (count, shape[-1] if shape else 1), f"x{k}")
        steps.append(Apply("preparation.Single", (own,), (f"s{k}",)))
        names.append(f"A{k}")
        writes.append(f"Y[n, c + {at}] = A{k}[n, c] else 0.0 where c in 0:{width}, n in 0:{count}")
        at += width
    sources = tuple(f"s{k}" for k in range(len(widths)))
    return (*steps, Apply("movement.Assemble", sources, spell={"inputs": ", ".join(names), "writes": "; ".join(writes)}))


ROWS: dict[str, Binder] = {f"ai.onnx.ml::{name}": row for name, row in {
    "Scaler": scaler, "Binarizer": binarizer, "Imputer": imputer, "Normalizer": normalizer, "LabelEncoder": label_encoder,
    "OneHotEncoder": one_hot_encoder, "ArrayFeatureExtractor": array_feature_extractor,
    "FeatureVectorizer": feature_vectorizer}.items()}
