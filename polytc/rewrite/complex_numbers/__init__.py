"""Complex tensors as real ones: `parts` of expressions, `statements` of statements, `matrix` of sums of products,
`both_parts` of sums to which both parts add alike."""
