"""What tuning gains on the bench's cases, measured on GPUs, and how fast the search finds it.

python -m bench.tuning run FOLDER          search every kernel, keep records; with --exhaust
                                           PATTERN, measure all schedules of some cases, too
python -m bench.tuning pack FOLDER         two compressed files of what a run wrote, and
                                           the best records for tvm_stitch to apply
python -m bench.tuning unpack FOLDER      and back, for a run to go on from
python -m bench.tuning tables FOLDER       Markdown and plots of what is there
python -m bench.tuning train FOLDER MODEL  train the model that the package ships
"""
