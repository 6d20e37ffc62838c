"""ONNX files to graphs: the only door to the onnx library."""

from polytc.graph.onnx.about import about, without_stored
from polytc.graph.onnx.contrib import NoText, definition, expand, why_not
from polytc.graph.onnx.functions import expanded, function_body
from polytc.graph.onnx.half_evaluation import evaluate_node, evaluate_values
from polytc.graph.onnx.importer import import_model
from polytc.graph.onnx.node_evaluator import evaluator, model_of_node
from polytc.graph.onnx.onnx_runtime import runtime_evaluator, runtime_has, second_opinion
from polytc.graph.onnx.reader import read_model
from polytc.graph.onnx.shape_inference import refused_by_inference, result_types

__all__ = [
    "NoText", "about", "definition", "evaluate_node", "evaluate_values", "evaluator", "expand", "expanded", "function_body",
    "import_model", "model_of_node", "read_model", "refused_by_inference", "result_types", "runtime_evaluator", "runtime_has",
    "second_opinion", "why_not", "without_stored"]
