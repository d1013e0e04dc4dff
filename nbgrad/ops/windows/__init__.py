"""Windows of an input: pooling, resampling, and reading images where a grid says."""
