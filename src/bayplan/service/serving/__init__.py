"""The endpoints that a scheduler serves over HTTPS, from a thread of its own so that they tell the truth while the
scheduler is blocked: health, metrics, and what it runs with. Start reading at `endpoints.py`.
"""
