"""After the noise: arithmetic with intervals, statistics, the rendered answer."""
