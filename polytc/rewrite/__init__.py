"""Rewrites from Program to Program, one idea a file: those that tidy for every target, those for CPUs, those for GPUs."""
