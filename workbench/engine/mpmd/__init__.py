"""A pipeline run as a program for each stage."""
