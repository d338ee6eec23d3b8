"""How the default rates of ``param_groups`` were found: a plain loop over laws, optimisers and rates.

    python -m studies.rates --out results/rates.json

Training as in studies.loop. The rate of the rest is the usual one of each optimiser; what varies are the factors between
it and the rates of p and the growth.
"""
