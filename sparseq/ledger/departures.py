"""Departures: the users who were ever left out of a query, and the first release of each: private.

User i is first left out of release t if Algorithm 2's filter rejects i for the first time in the
pot of queries. The filter reads i's own charges and budget, and the charges depend on i's own rows
and on the query, which was chosen from past releases. So whether, and when, i is first left out is
a function of i's own data and of past releases, and of no other user's data: it may be queried
like any column of i's rows. The journal writes each first time in the transaction of its release.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from sparseq.compiled import select
from sparseq.ledger.accounts import Index, Ints


class Departures:
    """The release from which each user was first left out; 0: none so far.

    Example:
        >>> departures = Departures()
        >>> departures.add_users(3)
        >>> left_out = np.array([0, 2], np.int32)
        >>> departures.add(7, departures.new(left_out[:1]))
        >>> departures.new(left_out).tolist(), departures.first.tolist()
        ([2], [7, 0, 0])
        >>> departures.between(1, 7).tolist()
        [0]
    """

    def __init__(self) -> None:
        self.first: Ints = np.zeros(0, np.int64)
        self._here = np.zeros(0, np.bool_)  # first == 0, in an eighth of the memory
        self._releases: list[int] = []  # releases from which a user was first left out, ascending
        self._users: list[Index] = []

    def add_users(self, users: int) -> None:
        """Add new users, who were never left out."""
        self.first = np.concatenate([self.first, np.zeros(users, np.int64)])
        self._here = np.concatenate([self._here, np.ones(users, np.bool_)])

    def new(self, left_out: Index) -> Index:
        """Return the users in `left_out` who were never left out before."""
        return select(left_out, self._here[left_out])

    def add(self, release: int, users: Index) -> None:
        """Record a release, later than all before, as the first that left `users` out."""
        if len(users):
            self.first[users] = release
            self._here[users] = False
            self._releases.append(release)
            self._users.append(users)

    def between(self, first: int, last: int) -> Index:
        """Return the users first left out of one of the releases `first` to `last`, ascending."""
        start, stop = bisect_left(self._releases, first), bisect_right(self._releases, last)
        if start == stop:
            return np.zeros(0, np.int32)
        return np.sort(np.concatenate(self._users[start:stop]))
