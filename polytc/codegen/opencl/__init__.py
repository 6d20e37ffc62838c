"""OpenCL: text for any device, without one; the runtime package builds and launches it."""
