"""What XLA itself says about HLO modules: bytes, equal results, run times. `python -m hlo_opt.xla --help`.

Every module is compiled in a process of its own, with limits: XLA aborts on some malformed modules. Nothing here needs the native extension.
"""
