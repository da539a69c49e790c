"""A pipeline as one program for all devices: the shifting buffer of GSPMD (Xu et al. 2021, section 3.3)."""
