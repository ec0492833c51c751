"""The HTTPS endpoints of a scheduler: health, metrics, configuration and status. They run in their own thread, so they
respond while the scheduler is blocked. Start reading at `endpoints.py`.

Other packages use `endpoints`, `options`, `server`.
"""
