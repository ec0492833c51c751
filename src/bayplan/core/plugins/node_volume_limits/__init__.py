"""NodeVolumeLimits: filters out nodes that can't attach as many volumes of a CSI driver.

Other packages use `plugin`.
"""
