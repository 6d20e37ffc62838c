"""The language's table of programs, and the operators of Tensor Comprehensions, each with inputs and a reference in numpy."""
