"""The schedule that a user edits: recipes, their steps, and the loop nests that these transform."""
