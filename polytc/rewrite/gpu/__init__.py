"""Rewrites for GPUs: what the items of a work-group share, copy to local memory, and reduce together."""
