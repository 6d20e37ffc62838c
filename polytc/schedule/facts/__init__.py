"""What strategies and rewrites ask of a program: strides, groups, conflicts, bands of loops."""
