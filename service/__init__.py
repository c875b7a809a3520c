"""Approx-Zooming as a service: contextual recommendations that learn how the options relate."""
