"""What pages, tables and pictures call and colour the same way: names of poolings, names of models, the palette."""
