"""How a series is asked: with forecasts of who is out, or under a strategy."""
