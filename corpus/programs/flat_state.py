"""Loops whose state holds tuples, which JAX never writes: flat-state should take the tuples apart where a rewrite then gains."""
from programs.catalog import raw_twins

BIG = dict(STEPS=128, LAST=127, BATCH=64, WIDTH=256)
SMALL = dict(STEPS=5, LAST=4, BATCH=3, WIDTH=6)

raw_twins("flat-state", "fires-lists", "flat_lists.hlo", big=dict(BIG, BATCH=512), small=SMALL, as_written=True)
raw_twins("flat-state", "fires-triple", "flat_triple.hlo", big=dict(BIG, BATCH=512, WIDTH=64), small=SMALL, as_written=True)
raw_twins("flat-state", "keeps-results", "flat_results.hlo", big=BIG, small=SMALL, as_written=True)
