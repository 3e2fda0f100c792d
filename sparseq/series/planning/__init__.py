"""Which method a series is to have, tried on data that may be looked at."""
