"""Sequences: recurrent layers, each one launch forward and one backward."""
