"""Weights on disk: from a folder, an installed package, a registry package or a hub.

    path = ensure(manifest, "model", cache=Cache.default(), converters=family.converters, progress=print)

(Under construction.)
"""
