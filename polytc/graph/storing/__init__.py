"""What is kept of a model for the next process."""
