"""Whether `einsum` asks the library opt_einsum for an order of products: it does not."""

enabled, strategy = False, None


def is_available() -> bool:
    """Whether the library is used."""
    return False


def get_opt_einsum() -> None:
    """The library."""
