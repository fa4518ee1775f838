"""Algorithms that improve a learner with a batch of transitions: the paper's soft actor-critic, our proximal steps."""
