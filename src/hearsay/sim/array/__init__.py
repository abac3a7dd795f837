"""The array engine: the routers' rules over arrays, in machine code, for networks from thousands to millions of nodes."""
