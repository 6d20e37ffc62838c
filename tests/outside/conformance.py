"""What the distribution's own tests run: pytest conformance.py, with it installed."""

from polytc_outside.target import PlainTarget

from polytc.testing import TargetSuite


class TestPlain(TargetSuite):
    target = PlainTarget()
