"""The running scheduler: `loop.py` is the main path (pop, decide, assume, bind); around it are assembly, the binding
cycle, the informers that feed state and queue, events and conditions.
"""
