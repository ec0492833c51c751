"""What makes an object invalid, per kind, in kube-apiserver's words. A rule here only reads; defaults write."""
