"""The checks of `benchmarks.reliability`, by what they attack."""
