"""The name of a request in the journal: the asker, and a name in that asker's namespace.

An analyst may use any text as a name. Requests of the system itself (a monitor's tick, the node of
a watch, a step of training, a line of a replayed log) have names in namespaces of other askers. A
text always names an analyst's request; only code can make a `RequestId` of another asker.

    RequestId.of_analyst("monday")                   analyst/monday
    RequestId.of(Asker.WATCH, "1", "alarm")          watch//1/alarm

The journal stores the text on the right. The asker is the part before the first slash, and contains
no slash, so names of two askers always differ.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from sparseq.base.arguments import check_text
from sparseq.base.errors import ParameterError


class Asker(StrEnum):
    """The kind of asker; each kind has its own namespace."""

    ANALYST = "analyst"
    MONITOR = "monitor"
    WATCH = "watch"
    TRAIN = "train"
    REPLAY = "replay"
    CLIENT = "client"  # a client of a server: the first part is the token's name


@dataclass(frozen=True)
class RequestId:
    """The name of one request.

    Attributes:
        asker: The kind of asker whose namespace the name is in.
        text: The name, as it is shown.
        question: A digest of the question, if one name may stand for several questions: a series
            whose query was changed, or a log of the same file name. Each question then has its own
            answer.
        former: The spelling of an earlier version of sparseq, which did not separate such names
            from those of analysts. Answers of that version are still found by it (see `Journal`).

    Example:
        >>> RequestId.of_analyst("watch//1").stored, RequestId.of(Asker.WATCH, "1").stored
        ('analyst/watch//1', 'watch//1')
        >>> RequestId.read("analyst/watch//1") == RequestId.of_analyst("watch//1")
        True
    """

    asker: Asker
    text: str
    question: str = ""
    former: str = field(default="", compare=False, repr=False)

    @classmethod
    def of_analyst(cls, text: str) -> RequestId:
        """Return the id of an analyst's request: any text."""
        return cls(Asker.ANALYST, text)

    @classmethod
    def of(cls, asker: Asker, *parts: str, question: str = "", former: str = "") -> RequestId:
        """Return the id of a system request; different parts always give different names.

        >>> a, b = RequestId.of(Asker.TRAIN, "a/b", "c"), RequestId.of(Asker.TRAIN, "a", "b/c")
        >>> a.text, b.text
        ('a%2Fb/c', 'a/b/c')
        """
        *some, last = parts
        text = "/".join([*(part.replace("%", "%25").replace("/", "%2F") for part in some), last])
        return cls(asker, text, digest(question) if question else "", former)

    @classmethod
    def read(cls, stored: str) -> RequestId:
        """Return the id from which `stored` was made."""
        asker, _, rest = stored.partition("/")
        if asker == Asker.ANALYST:
            return cls(Asker.ANALYST, rest)
        question, _, text = rest.partition("/")
        return cls(Asker(asker), text, question)

    @property
    def stored(self) -> str:
        """The text that the journal stores."""
        if self.asker is Asker.ANALYST:
            return f"{self.asker}/{self.text}"
        return f"{self.asker}/{self.question}/{self.text}"

    def __str__(self) -> str:
        """Return an analyst's text unchanged; any other id with its asker in front."""
        return self.text if self.asker is Asker.ANALYST else f"{self.asker}/{self.text}"


def requested(given: RequestId | str | None) -> RequestId | None:
    """Return the request id for a caller's argument: a text always names an analyst's request."""
    if given is None or isinstance(given, RequestId):
        return given
    if not isinstance(given, str):
        raise ParameterError(f"a request id is a {type(given).__name__}; it must be a text")
    check_text("the request id", given)
    return RequestId.of_analyst(given)


def digest(question: str) -> str:
    """Return a 64-bit hash of a text. The journal also compares the text itself."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]
