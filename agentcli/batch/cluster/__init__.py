"""Carries out tasks on the machines of a Ray cluster.

The batch sees `workers`. That starts a program, `driver`, the only one on this machine that loads
Ray: Ray takes signals and streams for itself, and ends its process when the cluster is gone. `node`
runs on the machines, which must meet `requirements`.
"""
