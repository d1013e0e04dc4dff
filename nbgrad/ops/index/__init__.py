"""Elements named by indices: brackets, gather and scatter, and their writes. `gather` is the easiest to read first."""
