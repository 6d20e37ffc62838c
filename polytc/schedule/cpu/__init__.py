"""The strategies for CPUs."""
