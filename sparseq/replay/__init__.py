"""Batch replay: a log of queries answered line by line, on the one stream of the store.

log → replay → answers: lines are read in bounded memory, each becomes a query with a request id of
its own, and each leaves one row behind. Nothing here has privacy logic of its own.
"""

from sparseq.replay.log import Line, Log
from sparseq.replay.run import AnswerFile, Prices, Result, Summary, price_list, replay

__all__ = ["AnswerFile", "Line", "Log", "Prices", "Result", "Summary", "price_list", "replay"]
