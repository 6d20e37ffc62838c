"""Operators that compute each element from the elements at the same place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Routine, Site, Step, View
from polytc.program.scalars import DTYPES, DType, identity


def plain(entry: str, *attributes: str) -> Binder:
    """A row for an operator whose text takes the node's inputs and the named attributes as they are (the text has defaults)."""
    def bind(site: Site) -> Lowering:
        attrs = {a: site.attr(a) for a in attributes if site.attr(a) is not None}
        return Apply(f"elementwise.{entry}", tuple(range(len(site.shapes))), attrs=attrs)
    return bind


def kept(bind: Binder) -> Binder:
    """The row for operators whose text may compute in a wider type: integers in f64, halves with parameters in f32. The result
    has the type of the first input."""
    def bound(site: Site) -> Lowering:
        lowering = bind(site)
        assert not isinstance(lowering, Routine)
        steps = lowering if isinstance(lowering, tuple) else (lowering,)
        kinds = [d for d in site.dtypes if d is not None]
        if site.dtype(0).is_float and all(d == kinds[0] for d in kinds):
            return lowering
        return tuple(step for each in steps for step in narrowed(site, each))
    return bound


def narrowed(site: Site, step: Step) -> tuple[Step, ...]:
    """A step that computes the first result in a wider type, and its conversion to the type of the first input."""
    if not isinstance(step, Apply) or step.outputs[0] != 0:
        return (step,)
    return (replace(step, outputs=("computed", *step.outputs[1:])), Apply(f"elementwise.Cast_{site.dtype(0)}", ("computed",)))


def binary(entry: str, integer: str | None = None, unsigned: str | None = None) -> Binder:
    """A row for a broadcasting operator of two inputs; other texts for integers where they are named."""
    def bind(site: Site) -> Lowering:
        kind = site.dtype(0).kind
        name = unsigned if unsigned and kind == "u" else integer if integer and kind in "iu" else entry
        return _aligned(site, f"elementwise.{name}")
    return bind


def _aligned(site: Site, entry: str) -> Lowering:
    """Before opset 7 the second input was broadcast from an axis of the first that an attribute named."""
    if site.opset >= 7 or not site.attr("broadcast") or site.attr("axis") is None:
        return Apply(entry, (0, 1))
    axis = site.axis(site.attr("axis"), site.rank(0))
    shape = site.shape(1) + (1,) * (site.rank(0) - axis - site.rank(1))
    return View(1, shape, "b"), Apply(entry, (0, "b"))


def variadic(entry: str, mean: bool = False) -> Binder:
    """A row for an operator that folds any number of inputs with a binary text."""
    def bind(site: Site) -> Lowering:
        count = len(site.shapes)
        steps: list[Step] = []
        total: Ref = 0
        for i in range(1, count):
            result: int | str = 0 if i == count - 1 and not mean else f"t{i}"
            steps.append(Apply(f"elementwise.{entry}", (total, i), (result,)))
            total = result
        if mean:
            steps.append(Apply("linear.Share", (total,), attrs={"count": count}))
        return tuple(steps) or View(0, site.shape(0))
    return bind


def cast_to(name: str) -> Binder:
    """A row that converts to the type that an attribute names by onnx's number."""
    def bind(site: Site) -> Lowering:
        number = site.attr(name)
        target = TYPES.get(number) if isinstance(number, int) else DTYPES.get(str(number).lower())
        if target is None:
            raise site.unsupported(f"conversion to the element type {number} of onnx")
        return converted(site, target)
    return bind


def converted(site: Site, target: DType) -> Lowering:
    return View(0, site.shape(0)) if site.dtype(0) == target else Apply(f"elementwise.Cast_{target}", (0,))


TYPES = {number: DTYPES[name] for number, name in {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 12: "u32",
    13: "u64", 16: "bf16"}.items()}
"""onnx's element type -> scalar type."""


def bit_cast(site: Site) -> Lowering:
    """The same bits as another type of the same size."""
    target, kind = TYPES.get(site.attr("to")), site.dtype(0)
    if target is None:
        raise site.unsupported(f"conversion to the element type {site.attr('to')} of onnx")
    if target.bytes != kind.bytes:
        raise site.misfit(f"{kind} and {target} differ in size")
    if target.kind in "iu" and kind.kind in "iub":
        return converted(site, target)
    return Routine(lambda x: [x.view(target.numpy)], (0,))


def cast_like(site: Site) -> Lowering:
    return converted(site, site.dtype(1))


def clip(site: Site) -> Lowering:
    """Bounds are attributes before opset 11, and optional inputs since. A bound that is left out costs nothing."""
    dtype = site.dtype(0)
    bounds: list[Ref | None] = []
    for i, name in ((1, "min"), (2, "max")):
        given = site.attr(name)
        bounds.append(np.array(given, dtype.numpy) if given is not None else i if site.has(i) else None)
    low, high = (None if _idle(site, b, op, dtype) else b for b, op in zip(bounds, ("max", "min"), strict=True))
    if low is not None and high is not None:
        return Apply("elementwise.Clip", (0, low, high))
    if low is not None or high is not None:
        return (Apply("elementwise.Max", (0, low)) if low is not None
                else Apply("elementwise.Min", (0, high)))  # type: ignore[arg-type]
    return View(0, site.shape(0))


def _idle(site: Site, bound: Ref | None, op: str, dtype: DType) -> bool:
    """Does a bound clip nothing?"""
    known = site.value(bound) if isinstance(bound, int) else bound
    return bound is None or (isinstance(known, np.ndarray) and known.size == 1 and known.item() == identity(op, dtype))


def power(site: Site) -> Lowering:
    """Small constant exponents become products and roots; the result has the type of the base."""
    exponent = site.value(1)
    base = site.dtype(0)
    if exponent is not None and exponent.size == 1 and exponent.ndim <= site.rank(0) and base.is_float:
        known = {2.0: "Square", 3.0: "Cube", 0.5: "Sqrt", -1.0: "Reciprocal"}.get(float(exponent.item()))
        if known:
            return Apply(f"elementwise.{known}", (0,))
        return Apply("elementwise.Pow", (0, exponent.astype(base.numpy)))
    if site.dtype(1) == base:
        return Apply("elementwise.Pow", (0, 1))
    common = np.promote_types(base.numpy, site.dtype(1).numpy)
    name = next(n for n, t in DTYPES.items() if t.numpy == common)
    return (Apply(f"elementwise.Cast_{name}", (0,), ("a",)), Apply(f"elementwise.Cast_{name}", (1,), ("b",)),
            Apply("elementwise.Pow", ("a", "b"), ("p",)), Apply(f"elementwise.Cast_{base}", ("p",)))


def modulo(site: Site) -> Lowering:
    return Apply("elementwise.ModTruncated" if site.attr("fmod", 0) else "elementwise.Mod", (0, 1))


def shift(site: Site) -> Lowering:
    return Apply("elementwise.BitShiftLeft" if site.attr("direction") == "LEFT" else "elementwise.BitShiftRight", (0, 1))


def gelu(site: Site) -> Lowering:
    return Apply("elementwise.GeluTanh" if site.attr("approximate", "none") == "tanh" else "elementwise.Gelu", (0,))


def infinite(site: Site) -> Lowering:
    positive, negative = site.attr("detect_positive", 1), site.attr("detect_negative", 1)
    if not positive and not negative:
        return Known(np.zeros(site.shape(0), bool))
    name = "IsInf" if positive and negative else "IsInfPositive" if positive else "IsInfNegative"
    return Apply(f"elementwise.{name}", (0,))


def prelu(site: Site) -> Lowering:
    """The slope is broadcast to the input; in old models a vector means one slope for each channel."""
    if site.rank(1) == 1 and site.shape(1)[0] != 1 and site.opset < 7 and site.rank(0) > 2:
        return (View(1, site.shape(1) + (1,) * (site.rank(0) - 2), "s"), Apply("elementwise.PRelu", (0, "s")))
    return Apply("elementwise.PRelu", (0, 1))


def _same(*names: str) -> dict[str, Binder]:
    return {name: plain(name) for name in names}


ROWS: dict[str, Binder] = _same(
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor",
    "HardSwish", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Where") | {
    "Celu": plain("Celu", "alpha"), "Elu": plain("Elu", "alpha"), "HardSigmoid": plain("HardSigmoid", "alpha", "beta"),
    "LeakyRelu": plain("LeakyRelu", "alpha"), "Selu": plain("Selu", "alpha", "gamma"),
    "Shrink": kept(plain("Shrink", "lambd", "bias")), "SwiGLU": plain("SwiGLU", "alpha"), "Swish": plain("Swish", "alpha"),
    "ThresholdedRelu": plain("ThresholdedRelu", "alpha"),
} | {name: binary(name) for name in (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul",
    "Or", "Sub", "Xor")} | {
    "Div": binary("Div", "DivInt", "DivUnsigned"), "BitCast": bit_cast, "BitShift": shift,
    "Cast": cast_to("to"), "CastLike": cast_like,
    "Clip": clip, "Gelu": gelu, "IsInf": infinite, "Max": variadic("Max"), "Mean": variadic("Add", mean=True),
    "Min": variadic("Min"), "Mod": modulo, "Pow": power, "PRelu": prelu, "Sum": variadic("Add"),
}
