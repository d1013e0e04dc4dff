"""Products of matrices and what is made of them: norms, systems, factorisations, distances. `products` is to be read first."""
