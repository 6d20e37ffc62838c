"""Fourier transforms of all lengths against numpy.fft, on the language's evaluator and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph.operators.dense import spectral

R = np.random.default_rng(11)


def transformed(build, x: np.ndarray, length: int | None, axis: int, target: str = "evaluate", **attributes: int) -> np.ndarray:
    names = ["x", "length" if length is not None else "", "axis"]
    constants = {"axis": np.int64(axis)} | ({"length": np.int64(length)} if length is not None else {})
    model = build([helper.make_node("DFT", names, ["y"], **attributes)], {"x": x}, ["y"], constants, opset=20)
    return polytc.load_onnx(model).compile(target=target)(x)


def parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 97, 98, 120, 243])
@pytest.mark.parametrize("inverse", [0, 1])
def test_complex(n: int, inverse: int, build, monkeypatch) -> None:
    """With tables and in two steps, prime lengths and others."""
    monkeypatch.setattr(spectral, "LARGEST_TABLE", 1000)
    x = R.standard_normal((2, n, 3, 2))
    z = x[..., 0] + 1j * x[..., 1]
    wanted = np.fft.ifft(z, axis=1) if inverse else np.fft.fft(z, axis=1)
    np.testing.assert_allclose(transformed(build, x, None, 1, inverse=inverse), parts(wanted), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n", "length"), [(9, 9), (100, 100), (100, 120), (130, 110), (5, 8), (8, 5), (99, 99)])
def test_real_one_sided_there_and_back(n: int, length: int, build, monkeypatch) -> None:
    """dft_length cuts or fills with zeros."""
    monkeypatch.setattr(spectral, "LARGEST_TABLE", 1000)
    x = R.standard_normal((2, n, 1))
    spectrum = transformed(build, x, length, -2, onesided=1)
    wanted = np.fft.rfft(x[..., 0], length, axis=1)
    np.testing.assert_allclose(spectrum, parts(wanted), rtol=1e-9, atol=1e-9)
    back = transformed(build, spectrum, length, 1, onesided=1, inverse=1)
    np.testing.assert_allclose(back[..., 0], np.fft.irfft(wanted, length, axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [60, 256])
def test_compiled(n: int, build, monkeypatch) -> None:
    monkeypatch.setattr(spectral, "LARGEST_TABLE", 10000)
    x = R.standard_normal((3, n, 1)).astype(np.float32)
    got = transformed(build, x, None, 1, target="cpu")
    np.testing.assert_allclose(got, parts(np.fft.fft(x[..., 0], axis=1)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["constant window", "window", "length", "complex"])
def test_short_time(form: str, build) -> None:
    x = R.standard_normal((2, 40, 2 if form == "complex" else 1))
    window = np.hanning(12)
    constants = {"step": np.int64(5), "length": np.int64(12)} | ({"window": window} if form == "constant window" else {})
    names = ["x", "step", "window" if "window" in form else "", "length"]
    feeds = {"x": x} | ({"window": window} if form == "window" else {})
    node = helper.make_node("STFT", names, ["y"], onesided=int(form != "complex"))
    got = polytc.load_onnx(build([node], feeds, ["y"], constants, opset=17)).compile(target="evaluate").run(None, feeds)[0]
    z = x[..., 0] + (1j * x[..., 1] if form == "complex" else 0)
    frames = np.stack([z[:, 5 * f:5 * f + 12] for f in range(6)], 1) * (window if "window" in form else 1)
    wanted = np.fft.fft(frames, axis=-1) if form == "complex" else np.fft.rfft(frames.real, axis=-1)
    np.testing.assert_allclose(got, parts(wanted), rtol=1e-9, atol=1e-9)
