"""Schedule to Loop AST to source text, for each target; no scheduling decision is made here."""
