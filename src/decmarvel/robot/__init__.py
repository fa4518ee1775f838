"""All that may run on board of one robot. It imports `core` alone, so it cannot see truth or team."""
