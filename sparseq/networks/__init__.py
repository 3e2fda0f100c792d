"""Training of networks (PyTorch), and stochastic gradient descent over samples of users."""
