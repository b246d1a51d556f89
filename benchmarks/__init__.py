"""Benchmarks: one command each, which prints a table and can write JSON."""
