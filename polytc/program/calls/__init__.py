"""Functions that no text has and rewrites put into programs: words of narrow numbers, values that groups wait for."""
