"""The language: text to checked Program, and the reference evaluator. Knows nothing of isl."""

from polytc.lang.build import build
from polytc.lang.evaluate import evaluate
from polytc.lang.signature import Param, Signature, dimensions, names, signature

__all__ = ["Param", "Signature", "build", "dimensions", "evaluate", "names", "signature"]
