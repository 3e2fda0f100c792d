"""Programs that attack, audit and compare sparseq; what it must show, and what it must not."""
