"""Passes over graphs: what flows through them."""
