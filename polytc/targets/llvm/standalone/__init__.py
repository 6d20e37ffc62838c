"""Models without Python: a chain of kernels, its threads and the functions around them as one object file."""
