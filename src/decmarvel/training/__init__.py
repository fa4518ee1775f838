"""How the learned planners are trained. It may see truth and team; nothing of it flies."""
