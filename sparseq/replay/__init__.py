"""Batch replay: a log of queries answered line by line, on the one stream of the store.

log → replay → answers: lines are read in bounded memory, each becomes a query with its own request
id, and each gives one row. This folder has no privacy logic.
"""

from sparseq.replay.answer_file import AnswerFile, Result
from sparseq.replay.log import Line, Log
from sparseq.replay.run import Prices, Summary, price_list, replay

__all__ = ["AnswerFile", "Line", "Log", "Prices", "Result", "Summary", "price_list", "replay"]
