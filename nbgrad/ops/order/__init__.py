"""What depends on the order of elements: sorting, uniqueness, counting, running sums. `scan` is the easiest to read first."""
