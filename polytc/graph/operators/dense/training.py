"""Steps of optimisers, for any number of tensors at once."""

from __future__ import annotations

from collections.abc import Mapping

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site
from polytc.graph.operators.index_packs import spell

DOMAIN = "ai.onnx.preview.training::"


def optimiser(entry: str, states: int, attributes: Mapping[str, str], timed: bool = True) -> Binder:
    """A row: for each tensor its gradient and `states` running means are read, and the tensor and the means are written.

    attributes: names of the text -> names of the node. timed: whether the text uses the number of steps as a float.
    """
    def bind(site: Site) -> Lowering:
        kinds = 2 + states
        count = (len(site.shapes) - 2) // kinds
        if count < 1 or len(site.shapes) != 2 + kinds * count:
            raise site.misfit(f"{len(site.shapes) - 2} tensors are not tensors with gradients and {states} states each")
        name = "Nesterov" if site.attr("mode", "") == "nesterov" else entry
        attrs = {own: site.attr(given, DEFAULTS.get(own, 0.0)) for own, given in attributes.items()}
        spelling = {"r": spell("0" for _ in site.shape(0)), "t": spell("0" for _ in site.shape(1))}
        if timed:
            spelling["type"] = site.dtype(2).name
        return tuple(Apply(f"training.{name}", (0, 1, *(2 + k * count + i for k in range(kinds))),
                           tuple(k * count + i for k in range(1 + states)), attrs=attrs, spell=spelling)
                     for i in range(count))
    return bind


DEFAULTS = {"epsilon": 1e-6, "alpha": 0.9, "beta": 0.999}
"""Where an attribute is left out; all others are 0."""

ROWS: dict[str, Binder] = {
    f"{DOMAIN}Adagrad": optimiser("Adagrad", 1, {"decay": "decay_factor", "epsilon": "epsilon", "norm": "norm_coefficient"}),
    f"{DOMAIN}Adam": optimiser("Adam", 2, {"alpha": "alpha", "beta": "beta", "epsilon": "epsilon", "norm": "norm_coefficient",
                                           "post": "norm_coefficient_post"}),
    f"{DOMAIN}Momentum": optimiser("Momentum", 1, {"alpha": "alpha", "beta": "beta", "norm": "norm_coefficient"}, timed=False)}
