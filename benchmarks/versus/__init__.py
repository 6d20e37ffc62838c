"""polytc beside its peers: tables of cases, one process for each contender, interleaved rounds, ratios."""
