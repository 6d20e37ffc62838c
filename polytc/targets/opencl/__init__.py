"""OpenCL: text for any device, without one; `executable` launches it, `driver` speaks with what is installed."""
