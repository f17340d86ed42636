"""HTTP server for trained runs. It uses the Task interface and knows no single task.

A request passes through `middleware` (authorization and size limits), a route in `routes` (its API
shape) and `models` (queue and request limits) to `batcher`, which answers compatible requests
together.
"""
