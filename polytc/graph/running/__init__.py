"""Plans with code and memory: what runs."""
