"""A model as a library for C: its kernels, the plans for its sizes and processors, and the files beside its object file."""
