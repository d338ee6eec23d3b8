"""The names and colours that tables, pages and pictures share: names of poolings and of models, and the palette."""
