"""torchgpipe's U-Net for pictures."""
