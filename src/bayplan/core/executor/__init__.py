"""The executor: the only code that gives a plan effect. It acts through ports, which tell a real run from a simulation.

Start reading at `executor.py`; `ports.py` lists what a run is made of.
"""
