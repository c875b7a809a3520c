"""Synthetic environments and the traffic, simulations and reports made from them."""
