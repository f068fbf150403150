"""What tuning gains on the bench's cases, measured on a GPU, and how fast the search finds it.

python -m bench.tuning run FOLDER          search every kernel, keep records
python -m bench.tuning exhaust FOLDER      measure whole spaces, for the comparison of searches
python -m bench.tuning tables FOLDER       Markdown and plots of what is there
python -m bench.tuning train FOLDER MODEL  train the model that the package ships
"""
