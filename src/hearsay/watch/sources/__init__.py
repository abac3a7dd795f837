"""Where rows come from: a simulation, a run folder, a node."""
