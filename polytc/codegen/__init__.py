"""Schedule to Loop AST and its passes, for all targets; no scheduling decision is made here."""
