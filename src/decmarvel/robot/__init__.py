"""All that may run on board of one robot. It imports only `core`, so it cannot read the ground truth or the team."""
