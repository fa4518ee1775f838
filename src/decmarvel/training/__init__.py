"""How the learned planners are trained. It may read the ground truth and the team; it never runs on a robot."""
