"""Result tables: their columns, and how they replace older ones."""
