"""Pictures, films, HTML pages and ROS messages of missions and maps.

May know: everything about a mission or a map. May import: `recording` and all that it may import.
Here belongs what people look at. Only the report and the command line may import it.
"""
