"""asv benchmarks of nbgrad. asv finds none in a directory without this file."""
