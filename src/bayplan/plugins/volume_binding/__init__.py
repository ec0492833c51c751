"""VolumeBinding: finds nodes where a pod's claims are met, and has the claims bound before the pod is."""
