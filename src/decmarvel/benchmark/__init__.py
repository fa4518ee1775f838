"""Many missions: which ones, flown where, one row each."""
