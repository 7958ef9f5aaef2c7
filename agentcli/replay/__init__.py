"""Sessions as evidence: recordings of them, and what it takes to compare one with itself."""
