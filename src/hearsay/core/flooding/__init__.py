"""The two routers without a mesh: floodsub and randomsub."""
