"""What functions that rewrites put into programs (program.calls) are in C text: words of bytes, values that groups wait for."""
