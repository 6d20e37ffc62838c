"""Convolutions of any rank in the words of each contender."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from versus.case import Case, Node, Tensor

PLACES, WINDOW = "dhw", "qrs"
"""Indices of the result's and of the window's spatial axes, for three; the last ones for fewer."""


@dataclass(frozen=True)
class Convolution:
    """Cubic windows over channels-first images. size: spatial extents of the input."""

    batch: int
    channels: int
    features: int
    size: tuple[int, ...]
    kernel: int
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    groups: int = 1

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def out(self) -> tuple[int, ...]:
        reach = self.dilation * (self.kernel - 1) + 1
        return tuple((e + 2 * self.pad - reach) // self.stride + 1 for e in self.size)

    @property
    def input(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *self.size)

    @property
    def weights(self) -> tuple[int, ...]:
        return (self.features, self.channels // self.groups, *(self.kernel,) * self.rank)

    @property
    def output(self) -> tuple[int, ...]:
        return (self.batch, self.features, *self.out)

    @property
    def flops(self) -> float:
        return 2.0 * math.prod(self.output) * math.prod(self.weights[1:])

    @property
    def depthwise(self) -> bool:
        return self.groups == self.channels == self.features and self.groups > 1

    @property
    def name(self) -> str:
        """E.g. '3x3/2 64->128 56x56', with what is unusual behind it."""
        extras = "".join([f"/{self.stride}" * (self.stride > 1), f" dilation {self.dilation}" * (self.dilation > 1)])
        how = " depthwise" if self.depthwise else f" groups {self.groups}" * (self.groups > 1)
        channels = str(self.channels) if self.depthwise else f"{self.channels}->{self.features}"
        return f"{'x'.join([str(self.kernel)] * self.rank)}{extras}{how} {channels} {'x'.join(map(str, self.size))}"

    def text(self, result: str = "Y") -> str:
        """The statement for inputs X and W."""
        places, window = PLACES[-self.rank:], WINDOW[-self.rank:]
        reads = ",".join(self._place(h, r) for h, r in zip(places, window))
        ranges = [f"{h} in 0:{e}" for h, e in zip(places, self.out)]
        into, of, weight = "m", "c", "m,c"
        if self.depthwise:
            into, of, weight = "c", "c", "c,0"
        elif self.groups > 1:
            c, m = self.channels // self.groups, self.features // self.groups
            into, of, weight = f"g*{m}+m", f"g*{c}+c", f"g*{m}+m,c"
            ranges += [f"g in 0:{self.groups}", f"m in 0:{m}", f"c in 0:{c}"]
        read = f"X[n,{of},{reads}]"
        read = f"({read} else 0)" if self.pad else read
        return (f"{result}[n,{into},{','.join(places)}] += {read} * W[{weight},{','.join(window)}]\n"
                f"    where {', '.join(ranges)}")

    def _place(self, h: str, r: str) -> str:
        head = h if self.stride == 1 else f"{self.stride}*{h}"
        return f"{head}+{r if self.dilation == 1 else f'{self.dilation}*{r}'}{f'-{self.pad}' if self.pad else ''}"

    def node(self, inputs: str = "X W", output: str = "Y") -> Node:
        return Node("Conv", inputs, output, {
            "kernel_shape": [self.kernel] * self.rank, "strides": [self.stride] * self.rank,
            "pads": [self.pad] * (2 * self.rank), "dilations": [self.dilation] * self.rank, "group": self.groups})

    def torch(self, torch: Any, X: Any, W: Any, bias: Any = None) -> Any:
        function = getattr(torch.nn.functional, f"conv{self.rank}d")
        return function(X, W, bias, self.stride, self.pad, self.dilation, self.groups)

    def jax(self, jax: Any, X: Any, W: Any) -> Any:
        return jax.lax.conv_general_dilated(X, W, (self.stride,) * self.rank, [(self.pad, self.pad)] * self.rank,
                                            rhs_dilation=(self.dilation,) * self.rank, feature_group_count=self.groups)

    def case(self, name: str, group: str = "") -> Case:
        """This convolution alone, with constant weights."""
        return Case(name, self.text(), inputs={"X": Tensor(self.input), "W": Tensor(self.weights, constant=True)},
                    outputs={"Y": Tensor(self.output)}, onnx=(self.node(),), torch=self.torch, jax=self.jax, flops=self.flops,
                    group=group)
