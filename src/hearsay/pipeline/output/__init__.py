"""Result tables: their columns, and how new files replace older ones."""
