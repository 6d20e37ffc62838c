"""Facts about a program in isl's terms: domains, accesses, dependences, legality. No decision is taken here."""
