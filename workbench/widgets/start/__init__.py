"""The start panel and the model size strip: the choice of model and machines."""
