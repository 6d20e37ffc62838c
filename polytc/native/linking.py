"""Native functions of object files: by our own loader, or by LLVM for what that does not understand."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from polytc.disk import cache, stamps
from polytc.native import objects

if TYPE_CHECKING:
    from polytc.native import jit


class Code:
    """Native functions of an object file that `jit.build` made. They live as long as it does."""

    def __init__(self, data: bytes) -> None:
        self._image: objects.Image | jit.Linked
        try:
            self._image = objects.Image(data)
        except objects.Unsupported:
            from polytc.native import jit  # LLVM is large

            self._image = jit.Linked(data)

    def address(self, name: str) -> int:
        """Where a function starts."""
        found = self._image.address(name)
        assert found, f"no function {name}"
        return found


def scalar_code(text: str) -> Code:
    """Code of the runtime itself, for this processor, from LLVM IR; its object file is kept on disk."""
    around = stamps.native()
    key = hashlib.sha256("\n".join(("scalar", around, text)).encode()).hexdigest() if around is not None else None
    found = cache.get(key) if key is not None else None
    if found is None:
        from polytc.native import jit  # LLVM is large

        found = jit.build(text, *jit.host(), jit.Tuning(slp=False, vectorize=False, level=2))
        if key is not None:
            cache.put(key, found)
    return Code(found)
