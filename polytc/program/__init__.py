"""Program: the data model of everything between the language and isl, its text, its meaning (evaluator) and its arithmetic."""
