"""The browser in which pages are tested."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def in_browser(test):
    """Mark a test that opens a page."""
    without_one = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; .ci/run installs one")
    return pytest.mark.browser(without_one(test))
