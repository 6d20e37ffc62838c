"""The interpreter target: a Loop AST module run in Python, slowly and exactly, with every access checked."""

from polytc.targets.interp.target import InterpExecutable, InterpTarget

__all__ = ["InterpExecutable", "InterpTarget"]
