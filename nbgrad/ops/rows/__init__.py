"""Programs over rows, each forward and gradient one kernel: softmax (to be read first), normalisation, losses over classes."""
