"""A room for each target: what turns Loop AST into text, and what builds, loads and calls that text."""
