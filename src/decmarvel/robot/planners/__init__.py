"""Classical planners that one robot can run alone."""
