"""The roofs of this machine: which products they are of, and that they are measured."""

from __future__ import annotations

import pytest

from polytc import lang
from polytc.explanation import roofline

SHAPES = {"A": (8, 8), "B": (8, 8)}


@pytest.mark.parametrize(("text", "dtypes", "kind"), [
    ("C[i,j] += A[i,k]*B[k,j]", ("f32", "f32"), "f32"), ("C[i,j] += A[i,k]*B[k,j]", ("f64", "f64"), "f64"),
    ("C[i,j] += i32(A[i,k])*i32(B[k,j])", ("u8", "i8"), "bytes"),
    ("C[i,j] += (i32(A[i,k]) - 3)*i32(B[k,j])", ("u8", "i8"), "bytes"),
    ("C[i,j] += f32(A[i,k])*f32(B[k,j])", ("bf16", "bf16"), "bf16"),
    ("C[i,j] += A[i,k]*f32(B[k,j])", ("f32", "i8"), "f32 and bytes"),
    ("C[i,j] += i32(A[i,k])*i32(B[k,j]); D[i,j] = f32(C[i,j])*0.3", ("u8", "i8"), "bytes"),
    ("C[i,j] = A[i,j] + B[i,j]", ("f32", "f32"), "f32"), ("C[i,j] = A[i,j] + B[i,j]", ("i8", "i8"), None)])
def test_kinds(text: str, dtypes: tuple[str, str], kind: str | None) -> None:
    assert roofline.kind(lang.build(text, SHAPES, dict(zip("AB", dtypes, strict=True)))) == kind


@pytest.mark.part(2)
@pytest.mark.parametrize("kind", roofline.KINDS)
def test_roofs(kind: str) -> None:
    """The operations are those of the product as it is written."""
    roofs = roofline.roofs(kind)
    assert roofs.kind == kind
    assert roofs.operations > 0
    assert roofs.bandwidth > 0
