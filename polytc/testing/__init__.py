"""What every target has to do, as tests that a target of another distribution runs: `pip install 'polytc[testing]'`.

    from polytc.testing import TargetSuite
    from polytc_plain import PlainTarget

    class TestPlain(TargetSuite):
        target = PlainTarget()
"""

from polytc.testing.suite import TargetSuite

__all__ = ["TargetSuite"]
