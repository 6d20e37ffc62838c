"""Plans of calls: which nodes share a program, how values are laid out, and where they lie in memory."""
