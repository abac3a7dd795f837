"""What peers may make a host keep, and how often they may ask."""
