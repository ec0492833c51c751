"""The questions: each is a function of a world (see `bayplan.answers.simulation.world`) that returns an Answer."""
