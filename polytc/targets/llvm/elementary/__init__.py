"""Elementary functions of floats as straight code, so that vectors stay vectors: an argument reduction, then a polynomial.

floats.py is the language they are written in, coefficients.py the minimax polynomials, table.py which function is which; the
other files hold a family each. The methods are those of J.-M. Muller, Elementary Functions, 3rd edition, 2016. Nothing here
carries fast-math flags: splitting constants into high and low parts relies on the order of operations.
"""
