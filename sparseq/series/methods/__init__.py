"""Methods of a series: forecasts of users who are left out, or a strategy."""
