"""Elements in another order or place: flips and rolls (`orders`, to be read first), diagonals, padding, parts."""
