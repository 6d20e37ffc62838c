"""C99: text to ship, which nothing here builds or runs."""
