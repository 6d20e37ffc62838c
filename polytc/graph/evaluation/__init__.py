"""Nodes that are evaluated while a model is compiled, or by onnx's own evaluator."""
