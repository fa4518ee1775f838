"""What all other folders build on: settings, types, lattice, angles, lines of sight, camera, colours, files.

May know: nothing about a mission. May import: no other folder.
Here belongs what both the robot and the simulator need, and every type that passes between folders.
"""
