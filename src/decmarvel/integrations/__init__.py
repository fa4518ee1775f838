"""The simulator and the planners behind the interfaces of other packages."""
