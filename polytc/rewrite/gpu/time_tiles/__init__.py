"""Time tiles: several iterations of a `for` loop around stencils in one launch, in local memory.

- stencils.py: what such a loop computes, or why it is none
- geometry.py: how far a tile reaches
- loop_text.py: what takes the place of the loop; launches.py: the statements of one launch
- shapes.py: the tiles that there are to choose from, and their estimates
- tiling.py: the step: what is decided, and done
"""
