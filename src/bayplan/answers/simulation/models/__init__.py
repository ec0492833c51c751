"""Models of what surrounds a scheduler. Each is a small class that can be replaced; `parameters.py` reads them."""
