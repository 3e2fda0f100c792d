"""Planning of a series: methods, tried on data that may be looked at."""
