"""The strategies for GPUs."""
