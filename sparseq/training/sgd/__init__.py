"""Private SGD: gradients of random samples, in Rényi differential privacy; and its reports."""
