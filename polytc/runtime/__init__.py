"""Arrays in and out: checks of what a caller gives, bound calls, chains of them, packages of code."""
