"""Schedules compiled and timed in processes of their own, here or on other machines."""
