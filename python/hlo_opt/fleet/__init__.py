"""`python -m hlo_opt fleet FOLDER -o OUT`: a table and an HTML page of all dumps below a folder, by peak, floor and best reachable form."""
