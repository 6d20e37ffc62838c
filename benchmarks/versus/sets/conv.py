"""Every distinct convolution of five image networks at batch 1, from the shapes of their papers' architectures."""

from __future__ import annotations

from collections.abc import Iterator

from versus.case import Case, Goal, Set
from versus.convolution import Convolution


def conv(channels: int, features: int, size: int, kernel: int, stride: int = 1, groups: int = 1) -> Convolution:
    """Padded so that stride 1 keeps the size."""
    return Convolution(1, channels, features, (size, size), kernel, stride, kernel // 2, groups=groups)


def resnet50() -> Iterator[Convolution]:
    """He et al. 2015; the stride lies on the 3x3, as in today's model zoos."""
    yield conv(3, 64, 224, 7, 2)
    channels, size = 64, 56
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            yield conv(channels, width, size, 1)
            yield conv(width, width, size, 3, step)
            if block == 0:
                yield conv(channels, 4 * width, size, 1, step)
            size //= step
            yield conv(width, 4 * width, size, 1)
            channels = 4 * width


def mobilenetv2() -> Iterator[Convolution]:
    """Sandler et al. 2018, width 1."""
    yield conv(3, 32, 224, 3, 2)
    channels, size = 32, 112
    for expansion, out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                           (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            step, wide = stride if block == 0 else 1, channels * expansion
            if expansion > 1:
                yield conv(channels, wide, size, 1)
            yield conv(wide, wide, size, 3, step, groups=wide)
            size //= step
            yield conv(wide, out, size, 1)
            channels = out
    yield conv(320, 1280, 7, 1)


def vgg16() -> Iterator[Convolution]:
    """Simonyan and Zisserman 2014."""
    channels, size = 3, 224
    for width, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            yield conv(channels, width, size, 3)
            channels = width
        size //= 2


def efficientnet_b0() -> Iterator[Convolution]:
    """Tan and Le 2019, with squeeze-and-excitation to a quarter of a block's input channels."""
    yield conv(3, 32, 224, 3, 2)
    channels, size = 32, 112
    for expansion, out, blocks, kernel, stride in ((1, 16, 1, 3, 1), (6, 24, 2, 3, 2), (6, 40, 2, 5, 2), (6, 80, 3, 3, 2),
                                                   (6, 112, 3, 5, 1), (6, 192, 4, 5, 2), (6, 320, 1, 3, 1)):
        for block in range(blocks):
            step, wide = stride if block == 0 else 1, channels * expansion
            if expansion > 1:
                yield conv(channels, wide, size, 1)
            yield conv(wide, wide, size, kernel, step, groups=wide)
            size //= step
            yield conv(wide, channels // 4, 1, 1)
            yield conv(channels // 4, wide, 1, 1)
            yield conv(wide, out, size, 1)
            channels = out
    yield conv(320, 1280, 7, 1)


def densenet121() -> Iterator[Convolution]:
    """Huang et al. 2017: growth 32, bottlenecks of 128 channels."""
    yield conv(3, 64, 224, 7, 2)
    channels, size = 64, 56
    for last, layers in ((False, 6), (False, 12), (False, 24), (True, 16)):
        for _ in range(layers):
            yield conv(channels, 128, size, 1)
            yield conv(128, 32, size, 3)
            channels += 32
        if not last:
            yield conv(channels, channels // 2, size, 1)
            channels, size = channels // 2, size // 2


NETWORKS = {"resnet50": resnet50, "mobilenetv2": mobilenetv2, "vgg16": vgg16, "efficientnet_b0": efficientnet_b0,
            "densenet121": densenet121}

WIDE = "3x3 stride 1, 32 channels and more"
OTHER = "other convolutions"


def group(c: Convolution) -> str:
    wide = c.kernel == 3 and c.stride == 1 and c.groups == 1 and min(c.channels, c.features) >= 32
    return WIDE if wide else OTHER


def cases() -> Iterator[Case]:
    """Each convolution once, under the name of the first network that has it."""
    seen: set[Convolution] = set()
    for network, layers in NETWORKS.items():
        for c in layers():
            if c not in seen:
                seen.add(c)
                yield c.case(f"{network} {c.name}", group(c))


AGAINST = ("onnxruntime", "openvino")

CONV = Set("conv", "convolutions of ResNet-50, MobileNetV2, VGG-16, EfficientNet-B0 and DenseNet-121, batch 1, f32",
           tuple(cases()), {WIDE: Goal(0.5, 0.9, AGAINST), OTHER: Goal(0.95, 1.2, AGAINST)})
