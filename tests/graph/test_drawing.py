"""graph.draw(): an SVG document with every node, whatever names the file has."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph import drawing
from polytc.graph.ir import Graph

SVG = "{http://www.w3.org/2000/svg}"


def parsed(graph: Graph) -> ET.Element:
    return ET.fromstring(graph.draw())


def boxes(root: ET.Element, kind: str) -> list[ET.Element]:
    return [g for g in root.iter(f"{SVG}g") if g.get("class") == kind]


def lines(box: ET.Element) -> list[str]:
    return [t.text or "" for t in box.iter(f"{SVG}text")]


def top(box: ET.Element) -> float:
    return float(box.find(f"{SVG}rect").get("y"))


def test_every_node_stands_below_what_it_reads(small_cnn) -> None:
    graph = polytc.load_onnx(small_cnn)
    root = parsed(graph)
    nodes = boxes(root, "node")
    assert [lines(n)[0] for n in nodes] == [n.op for n in graph.nodes]
    assert [lines(n)[0] for n in boxes(root, "input")] == [v.name for v in graph.inputs]
    assert [lines(n)[0] for n in boxes(root, "output")] == [v.name for v in graph.outputs]
    height = {name: top(box) for node, box in zip(graph.nodes, nodes, strict=True) for name in node.outputs}
    below = [(height[n], top(box)) for node, box in zip(graph.nodes, nodes, strict=True) for n in node.inputs if n in height]
    assert below
    assert all(a < b for a, b in below)


def test_boxes_do_not_overlap(small_cnn) -> None:
    places = [tuple(float(box.find(f"{SVG}rect").get(k)) for k in "xy")
              for box in parsed(polytc.load_onnx(small_cnn)).iter(f"{SVG}g")]
    for k, (x, y) in enumerate(places):
        assert all(y != b or abs(x - a) >= drawing.WIDTH for a, b in places[:k])
        assert x >= 0
        assert y >= 0


def test_two_branches_side_by_side(build) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["y"])]
    root = parsed(polytc.load_onnx(build(nodes, {"x": (np.float32, [2, 3])}, ["y"])))
    relu, neg, add = boxes(root, "node")
    assert top(relu) == top(neg) < top(add)
    assert len(list(root.iter(f"{SVG}path"))) == 5


@pytest.mark.parametrize("name", ["a<b>&\"'", "x\n</svg><script>alert(1)</script>", "]]>\x00\x1b", "日本語" * 30])
def test_hostile_names(build, name: str) -> None:
    graph = polytc.load_onnx(build([helper.make_node("Relu", ["x"], ["y"], name=name)], {"x": (np.float32, [2])}, ["y"]))
    root = parsed(graph)
    assert not list(root.iter(f"{SVG}script"))
    assert len(boxes(root, "node")) == 1


def test_an_empty_graph() -> None:
    assert not boxes(parsed(Graph("nothing", (), (), (), {})), "node")
