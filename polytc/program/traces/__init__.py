"""Computing with sizes that stay open: formulas, and what was decided by them."""
