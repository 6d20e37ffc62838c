"""Short programs that use polytc."""
