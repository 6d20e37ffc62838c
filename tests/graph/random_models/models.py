"""Random models of one to six nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from tests.generator.choices import Choices
from tests.graph.random_models import byte_recipes, estimator_recipes, float_recipes
from tests.graph.random_models.builder import Builder, follow

FAMILIES = [float_recipes.RECIPES, byte_recipes.RECIPES, estimator_recipes.RECIPES]


@dataclass(frozen=True)
class Made:
    """symbolic: compiled once for all sizes, where extents have names. coarsest: of the types of floats in it, as its
    results may be cast to finer ones."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    symbolic: bool = False
    recipes: tuple[str, ...] = ()
    coarsest: Any = np.float32

    def __str__(self) -> str:
        feeds = {n: (a.dtype.name, a.shape) for n, a in self.feeds.items()}
        return f"{onnx.printer.to_text(self.model)}\n{feeds}{' symbolic' * self.symbolic}"


def made(c: Choices) -> Made:
    """The model that these choices decide."""
    b = Builder(c, c.of([21, 17, 13, 20, 22]))
    recipes: list[Any] = []
    for _ in range(c.of([1, 1, 2, 3])):
        if len(b.nodes) < 4:
            recipes.append(c.of(c.of(FAMILIES)))
            recipes[-1](b)
    for _ in range(c.of([0, 0, 1, 2])):
        follow(b)
    model = b.model()
    used = {i.name for i in model.graph.input}
    return Made(model, {n: a for n, a in b.feeds.items() if n in used}, c.likely(15), tuple(
        f"{r.__module__.rpartition('.')[2].partition('_')[0]} {r.__name__}" for r in recipes), coarsest(b))


def coarsest(b: Builder) -> Any:
    """f32 too where there are no floats: operators on integers compute with it."""
    types = [np.dtype(t) for t in [*(v.dtype for v in b.values if v.dtype not in (str, list, None)),
                                   *(a.dtype for a in [*b.feeds.values(), *b.constants.values()])]]
    floats = [t for t in types if t.kind == "f"]
    estimator = any(n.domain == "ai.onnx.ml" for n in b.nodes)
    return min([*floats, *[np.dtype(np.float32)] * (estimator or not floats)], key=lambda t: t.itemsize).type
