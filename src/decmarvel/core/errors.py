"""Errors that several folders raise, and words that several errors need."""

from collections.abc import Iterable
from difflib import get_close_matches


class TrainingError(ValueError):
    """Settings that cannot be trained with, or a run that cannot go on. The message is one line that names the fix."""


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Text of an error about a name that is not among the known ones."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    meant = f"did you mean '{close[0]}'? " if close else ""
    return f"there is no '{name}'; {meant}Choose from: {', '.join(names)}"
