"""The methods that a policy can be trained with: reward, critics and settings of each, and the presets by name."""
