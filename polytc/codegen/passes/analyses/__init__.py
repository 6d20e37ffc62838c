"""What passes and targets ask about loops: which may run together, and how much they do."""
