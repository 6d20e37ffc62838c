"""All decisions: order, fusion, tiling, mapping. Every schedule that leaves this package respects the dependences: checked."""
