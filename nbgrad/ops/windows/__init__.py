"""Windows of an input: convolution, pooling, resampling, patches as columns, and reading images where a grid says."""
