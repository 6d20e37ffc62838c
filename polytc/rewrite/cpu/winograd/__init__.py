"""Winograd's convolutions: where they pay, their matrices and their statements."""
