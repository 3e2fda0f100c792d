"""Answers from answers: the same question again, and sums of cells that were measured."""
