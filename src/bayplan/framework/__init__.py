"""What a plugin is: extension points, statuses, verdict columns, events and hints, the profile, and the runner that
calls plugins. No policy lives here.
"""
