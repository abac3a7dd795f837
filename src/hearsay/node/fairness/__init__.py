"""What peers are held to, and how they share what there is."""
