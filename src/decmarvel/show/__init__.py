"""Pictures, films, pages and messages made of recorded missions."""
