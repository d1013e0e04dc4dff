"""Many elements to few: sums and extremes (`sums`, to be read first), moments, and the loop over memory that they share."""
