"""Errors that several folders raise."""


class TrainingError(ValueError):
    """Settings that cannot be trained with, or a run that cannot go on. The message is one line that names the fix."""
