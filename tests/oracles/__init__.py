"""Second versions of what the package computes: plain loops, slow on purpose, to compare with."""
