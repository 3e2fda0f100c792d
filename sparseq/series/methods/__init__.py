"""Methods of a series: forecasts of who is out, or a strategy."""
