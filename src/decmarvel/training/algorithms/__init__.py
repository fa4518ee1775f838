"""How a learner gets better by a batch of transitions: soft actor-critic as in the paper, and our proximal steps."""
