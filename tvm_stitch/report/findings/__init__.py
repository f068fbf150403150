"""What an explained compilation tells: its kernels, their launches, stages, sources and code."""
