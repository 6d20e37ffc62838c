"""The operators of models, as text: one .ein file for each family."""
