"""Readings of the same memory, copies of it, and joins: ops that move numbers and compute none. `views` is the easiest to read first."""
