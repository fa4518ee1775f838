"""Recorded missions: the file, and what is computed from it: beliefs, graphs, and since when each robot knew what.

May know: everything about one mission, the true map too. May import: `core`, `robot`, `worlds`, `simulation`.
Here belongs what reads, writes or replays a recording. Pictures of it belong in `show`.
"""
