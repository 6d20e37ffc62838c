"""OpenCL drivers and devices of this machine: found, checked, asked to compile in a process of their own."""
