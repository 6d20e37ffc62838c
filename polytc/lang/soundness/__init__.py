"""Proofs that a program reads and writes what it has, each refusal with a witness."""
