"""A plugin for pytest: a property that fails says so at its first example, since break_rules.py only asks whether it does."""

from hypothesis import Phase, settings

settings.register_profile("without_shrinking", phases=[Phase.explicit, Phase.generate], deadline=None, database=None)
settings.load_profile("without_shrinking")
