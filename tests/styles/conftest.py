"""Tests of a style go through the dispatch of the service over real PostgreSQL, with a clock to
steer."""
