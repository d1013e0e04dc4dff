"""Apple's GPUs, which nbgrad does not run on."""


def is_available() -> bool:
    return False


def is_built() -> bool:
    return False
