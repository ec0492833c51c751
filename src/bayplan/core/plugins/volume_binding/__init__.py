"""VolumeBinding: finds nodes for a pod's persistent volume claims, and binds the claims before the pod.

Other packages use `plugin`.
"""
