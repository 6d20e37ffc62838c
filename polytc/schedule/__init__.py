"""All decisions about when instances run: the automatic schedules, the transformations that users ask for, and their checks.

`polytc.schedule(text, ...)` is a function of the public interface, and `polytc.schedule` this package: so it can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """See polytc.stages.schedule."""
        return import_module("polytc.stages").schedule(*args, **options)


sys.modules[__name__].__class__ = _Callable
