"""The simulator and the planners behind the interfaces of other packages.

May know: what the other package's interface asks for. May import: all folders but `show`, `benchmark` and `cli`.
Here belongs one module for each other package, which is an optional dependency.
"""
