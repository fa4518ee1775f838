"""What everything else is made of: settings, types, lattice, angles, lines of sight, cameras, files."""
