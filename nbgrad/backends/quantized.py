"""Which library multiplies quantised matrices: none."""

engine, supported_engines = "none", ["none"]
