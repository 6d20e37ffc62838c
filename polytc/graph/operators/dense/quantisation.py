"""Conversions between real numbers and integers that stand for them, and products of such integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step
from polytc.graph.operators.dense.linear import leading
from polytc.graph.operators.elements.elementwise import TYPES
from polytc.graph.operators.index_packs import broadcast, indices, spell
from polytc.graph.operators.windows import sliding
from polytc.program.scalars import F32, DType, promote


def _limits(dtype: DType) -> dict[str, int]:
    info = np.iinfo(dtype.numpy)
    return {"low": int(info.min), "high": int(info.max)}


def _place(site: Site, i: int, names: list[str], axis: int) -> str:
    """Where the scale or zero point that is input i has its element: one for all, for each place of an axis, for each block."""
    shape = site.shape(i)
    if len(shape) == 0 or len(shape) == 1 and shape[0] == 1:
        return spell("0" for _ in shape)
    block, axis = site.attr("block_size", 0), site.axis(axis, len(names))
    if len(shape) == 1 and (len(names) > 1 or not block):
        return names[axis]
    if len(shape) != len(names) or not block:
        raise site.misfit("a scale of several axes needs the attribute block_size and the rank of the input")
    return spell(f"{n}//{block}" if a == axis else n for a, n in enumerate(names))


def _check_zeros(site: Site, *pairs: tuple[int, int]) -> None:
    """Zero points have the type of their data. pairs: inputs that are data, and those that are their zero points."""
    for data, zero in pairs:
        if site.has(zero) and site.dtype(zero) != site.dtype(data):
            raise site.misfit(f"the zero point, input {zero}, is {site.dtype(zero)}, its data are {site.dtype(data)}")


def quantize(site: Site) -> Lowering:
    """The quotient is computed in `precision`, else in the type of the input, halves in f32."""
    given = site.attr("output_dtype", 0)
    target = site.dtype(2) if site.has(2) else TYPES.get(given or 2)
    if target is None or target.kind not in "iu":
        raise site.unsupported(f"quantisation to the element type {given} of onnx")
    names = indices(site.rank(0))
    place = _place(site, 1, names, site.attr("axis", 1))
    asked = TYPES.get(site.attr("precision", 0))
    spelling = {"x": spell(names), "s": place, "type": target.name, "cast": asked.name if asked else ""}
    entry, inputs = ("QuantizeFrom", (0, 1, 2)) if site.has(2) else ("Quantize", (0, 1))
    return Apply(f"quantisation.{entry}", inputs, attrs=_limits(target), spell=spelling)


def dequantize(site: Site) -> Lowering:
    _check_zeros(site, (0, 2))
    names = indices(site.rank(0))
    place = _place(site, 1, names, site.attr("axis", 1))
    target = TYPES.get(site.attr("output_dtype", 0), site.dtype(1))
    wide = promote(site.dtype(1), F32)
    spelling = {"x": spell(names), "s": place, "type": target.name if target != wide else "", "wide": wide.name}
    zero = site.value(2)
    if not site.has(2) or zero is not None and not zero.any():
        return Apply("quantisation.Dequantize", (0, 1), spell=spelling)
    return Apply("quantisation.DequantizeFrom", (0, 1, 2), spell=spelling)


def dynamic(site: Site) -> Lowering:
    return Apply("quantisation.DynamicQuantize", (0,), (0, 1, 2), spell={"x": spell(indices(site.rank(0)))})


# ---- products

@dataclass(frozen=True)
class _Product:
    """Indices of both operands of a matrix product and of its result; the row is called i, the column j."""

    a: list[str]
    b: list[str]
    y: list[str]

    @staticmethod
    def of(site: Site, first: int, second: int) -> _Product:
        a, b = site.shape(first), site.shape(second)
        names = leading(site, a, b)
        rows, columns = ["i"] * (len(a) > 1), ["j"] * (len(b) > 1)
        return _Product([*broadcast(names, a[:-2]), *rows, "k"], [*broadcast(names, b[:-2]), "k", *columns],
                        [*names, *rows, *columns])

    def place(self, shape: tuple[int, ...], names: list[str], single: str) -> str:
        """Where a parameter has its element: one for all, for each row or column (`single`), or for those of every matrix."""
        if len(shape) <= 1:
            return spell(single if extent != 1 else "0" for extent in shape)
        return spell(broadcast(names, shape))


def matmul_integer(site: Site) -> Lowering:
    _check_zeros(site, (0, 2), (1, 3))
    return tuple(_sums(site, _Product.of(site, 0, 1), (0, 1), (2, 3), 0))


def _sums(site: Site, p: _Product, operands: tuple[int, int], zeros: tuple[int, int], output: int | str) -> list[Step]:
    """The product in i32. Where zero points and the second operand are known, their part of the sums is computed now."""
    (a, b), (za, zb) = operands, zeros
    known = [site.value(z) if site.has(z) else np.zeros((), np.int8) for z in zeros]
    weights = site.value(b)
    if weights is not None and known[0] is not None and known[1] is not None and known[0].size == 1 and len(p.b) > 1:
        centred = _narrow(weights.astype(np.int32) - known[1].astype(np.int32))
        shift = -int(known[0].reshape(-1)[0]) * centred.astype(np.int32).sum(-2, keepdims=len(p.a) > 1, dtype=np.int32)
        spelling = {"inputs": "A, B", "y": spell(p.y), "aterm": f"i32(A[{spell(p.a)}])", "bterm": f"i32(B[{spell(p.b)}])"}
        if not shift.any():
            return [Apply("quantisation.MatMul", (a, centred), (output,), spell=spelling)]
        return [Apply("quantisation.MatMul", (a, centred), ("sums",), spell=spelling),
                Apply("elementwise.Add", ("sums", shift), (output,))]
    names, inputs, terms = ["A", "B"], list[Ref](operands), []
    for letter, z, read, single in (("A", za, p.a, "i"), ("B", zb, p.b, "j")):
        term = f"i32({letter}[{spell(read)}])"
        if site.has(z):
            names.append(f"Z{letter}")
            inputs.append(z)
            term = f"({term} - i32(Z{letter}[{p.place(site.shape(z), read, single)}]))"
        terms.append(term)
    return [Apply("quantisation.MatMul", tuple(inputs), (output,), spell={
        "inputs": spell(names), "y": spell(p.y), "aterm": terms[0], "bterm": terms[1]})]


def _narrow(a: np.ndarray) -> np.ndarray:
    """The same integers in the narrowest type that holds them."""
    for kind in (np.int8, np.uint8, np.int16):
        if not a.size or np.iinfo(kind).min <= a.min() and a.max() <= np.iinfo(kind).max:
            return a.astype(kind)
    return a


def qlinear_matmul(site: Site) -> Lowering:
    _check_zeros(site, (0, 2), (3, 5))
    p = _Product.of(site, 0, 3)
    places = (p.place(site.shape(1), p.a, "i"), p.place(site.shape(4), p.b, "j"), p.place(site.shape(6), p.y, "i"))
    return (*_sums(site, p, (0, 3), (2, 5), "t"),
            _requantized(site, p.y, (1, 4, 6), places, p.place(site.shape(7), p.y, "i") if site.has(7) else ""))


def _requantized(site: Site, names: list[str], scales: tuple[int, int, int], places: tuple[str, str, str], zero: str) -> Step:
    """The sums 't' in the type of the zero point of the result, which is input 7."""
    a, b, y = (f"{letter}[{place}]" for letter, place in zip("ABY", places))
    target = site.dtype(7) if site.has(7) else site.dtype(0)
    spelling = {"x": spell(names), "factor": f"({a} * {b} / {y})", "type": target.name}
    if site.has(7):
        return Apply("quantisation.RequantizeFrom", ("t", *scales, 7), attrs=_limits(target), spell={**spelling, "z": zero})
    return Apply("quantisation.Requantize", ("t", *scales), attrs=_limits(target), spell=spelling)


# ---- convolutions

def convolution_integer(site: Site) -> Lowering:
    _check_zeros(site, (0, 2), (1, 3))
    return tuple(_convolved(site, (0, 1), (2, 3), 0))


def qlinear_convolution(site: Site) -> Lowering:
    _check_zeros(site, (0, 2), (3, 5))
    steps = _convolved(site, (0, 3), (2, 5), "sums" if site.has(8) else "t")
    if site.has(8):
        steps.append(Apply("convolution.Bias", ("sums", 8), ("t",)))
    names = ["n", "m", *indices(site.rank(0) - 2)]
    places = tuple(spell("m" if e != 1 else "0" for e in site.shape(i)) for i in (1, 4, 6))
    zero = spell("0" for _ in site.shape(7)) if site.has(7) else ""
    return *steps, _requantized(site, names, (1, 4, 6), (places[0], places[1], places[2]), zero)


def _convolved(site: Site, operands: tuple[int, int], zeros: tuple[int, int], output: int | str) -> list[Step]:
    """A convolution in i32. Known zero points become padding and a bias, others are subtracted beforehand."""
    image, kernel = operands
    shape, groups = site.shape(kernel), site.attr("group", 1)
    if site.shape(image)[1] != shape[1] * groups or shape[0] % groups:
        raise site.misfit(f"{site.shape(image)[1]} channels in {groups} groups do not fit these weights")
    attrs: dict[str, Any] = sliding(site, tuple(shape[2:])).attrs("stride", "dilation", "pad", "out")
    if groups > 1:
        attrs |= {"G": groups, "M": shape[0] // groups, "C": shape[1]}
    entry = "quantisation.ConvGroups" if groups > 1 else "quantisation.Conv"
    zx, zw = (site.value(z) if site.has(z) else np.zeros((), np.int8) for z in zeros)
    weights = site.value(kernel)
    if weights is not None and zx is not None and zw is not None:
        column = zw.reshape(-1, *(1,) * (weights.ndim - 1))
        centred = _narrow(weights.astype(np.int32) - column.astype(np.int32))
        zero = int(zx.reshape(-1)[0])
        shift = -zero * centred.reshape(len(centred), -1).sum(1, dtype=np.int32)
        if not shift.any():
            return [Apply(entry, (image, centred), (output,), attrs={**attrs, "outside": zero})]
        return [Apply(entry, (image, centred), ("products",), attrs={**attrs, "outside": zero}),
                Apply("convolution.Bias", ("products", shift), (output,))]
    steps, sources = list[Step](), list[Ref](operands)
    for k, (operand, z) in enumerate(zip(operands, zeros)):
        if site.has(z):
            names = indices(site.rank(operand))
            place = spell("i0" if e != 1 else "0" for e in site.shape(z))
            steps.append(Apply("quantisation.Centre", (operand, z), (f"centred{k}",), spell={"x": spell(names), "s": place}))
            sources[k] = f"centred{k}"
    return [*steps, Apply(entry, tuple(sources), (output,), attrs={**attrs, "outside": 0})]


ROWS: dict[str, Binder] = {
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "DynamicQuantizeLinear": dynamic,
    "MatMulInteger": matmul_integer, "QLinearMatMul": qlinear_matmul, "ConvInteger": convolution_integer,
    "QLinearConv": qlinear_convolution}
