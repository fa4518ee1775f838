"""What the rows of a benchmark say: statistics, tables, figures, a page."""
