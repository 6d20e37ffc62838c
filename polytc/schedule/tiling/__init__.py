"""Tiles of bands: their sizes, the loops between them and those inside of them."""
