"""Answers from recorded answers: for a repeated question, and for sums of measured cells."""
