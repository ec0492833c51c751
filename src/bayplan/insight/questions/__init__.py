"""The questions: each is a function of a world (see `bayplan.simulation.world`) that returns an Answer."""
