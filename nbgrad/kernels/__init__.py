"""The only jitted code: texts of kernels, their building, keeping and launching, on the threads of a crew.

Promises the stories above that a kernel is compiled at its first use, once for all processes of a user, and runs on memory that its caller
has checked; that what is loaded from disk is what this user's nbgrad wrote.
"""
