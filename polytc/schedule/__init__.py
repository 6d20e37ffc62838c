"""All decisions: order, fusion, tiling, mapping. Every schedule that leaves this package has been checked against the dependences."""
