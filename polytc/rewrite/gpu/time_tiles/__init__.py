"""Time tiles: several iterations of a `for` loop around stencils in one launch, in local memory."""
