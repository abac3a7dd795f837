"""The array engine: the routers' rules over arrays, in machine code, for networks of thousands to millions."""
