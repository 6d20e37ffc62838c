"""What `def`s and `op`s mean: their signatures, which of them a name calls, generic operators written out for concrete
ranks."""
