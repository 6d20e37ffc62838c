"""OpenCL: text for any device, without one; the runtime package builds and launches it."""

from polytc.codegen.opencl.emit import emit

__all__ = ["emit"]
