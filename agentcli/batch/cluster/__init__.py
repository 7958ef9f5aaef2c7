"""Tasks carried out on the machines of a Ray cluster.

`workers` is what the batch sees. It starts a program, `driver`, in which alone Ray is loaded: Ray
takes signals and streams for itself, and ends the process it is in when the cluster is gone. What
is run on the machines is in `node`.
"""
