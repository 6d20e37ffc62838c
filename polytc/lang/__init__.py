"""The language: text to checked Program, and the reference evaluator. Knows nothing of isl.

Every name below is imported when it is first used: what runs compiled code needs the scalar types, but not the front end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polytc.lazy_names import lazily

if TYPE_CHECKING:
    from polytc.lang.building import build
    from polytc.lang.definitions.implied_shapes import implied_shapes
    from polytc.lang.definitions.parameters import Param, Signature
    from polytc.lang.definitions.signatures import dimensions, names, signature
    from polytc.lang.definitions.uses import missing, unknown, whole
    from polytc.program.evaluator import evaluate

_HOME = {
    "build": "polytc.lang.building",
    "evaluate": "polytc.program.evaluator",
    "implied_shapes": "polytc.lang.definitions.implied_shapes",
    **dict.fromkeys(("Param", "Signature"), "polytc.lang.definitions.parameters"),
    **dict.fromkeys(("dimensions", "names", "signature"), "polytc.lang.definitions.signatures"),
    **dict.fromkeys(("missing", "unknown", "whole"), "polytc.lang.definitions.uses"),
}
"""Public name -> the module that defines it."""

__all__ = ["Param", "Signature", "build", "dimensions", "evaluate", "implied_shapes", "missing", "names", "signature",
           "unknown", "whole"]

__getattr__ = lazily(__name__, _HOME)
