"""The server: runs answer over HTTP. It knows the Task seam and nothing of any task.

A request goes through `gate` (who asks, and how much), a file of `routes` (what is asked)
and `models` (is there room, is it allowed) to `batcher`, which answers what has come together.
"""
